"""Lists of real names, words, cities, countries and colours, and how lists are written in this corpus."""

from __future__ import annotations


def phrases(text: str) -> list[str]:
    """The phrases in a text that has bars between them."""
    return [" ".join(part.split()) for part in text.split("|")]


def plain_words(text: str) -> list[str]:
    """The words in a text."""
    return text.split()


CAPITALS = dict(
    pair.split(": ")
    for pair in phrases(
        """
        France: Paris | Germany: Berlin | Italy: Rome | Spain: Madrid | Portugal: Lisbon |
        Austria: Vienna | Poland: Warsaw | Greece: Athens | Ireland: Dublin | Norway: Oslo |
        Sweden: Stockholm | Finland: Helsinki | Denmark: Copenhagen | Iceland: Reykjavik |
        Hungary: Budapest | Romania: Bucharest | Bulgaria: Sofia | Croatia: Zagreb | Serbia: Belgrade |
        Ukraine: Kyiv | Russia: Moscow | Turkey: Ankara | Egypt: Cairo | Morocco: Rabat |
        Algeria: Algiers | Tunisia: Tunis | Kenya: Nairobi | Ethiopia: Addis Ababa | Ghana: Accra |
        Nigeria: Abuja | Senegal: Dakar | Iran: Tehran | Iraq: Baghdad | Syria: Damascus |
        Lebanon: Beirut | Jordan: Amman | India: New Delhi | Nepal: Kathmandu | Pakistan: Islamabad |
        China: Beijing | Japan: Tokyo | South Korea: Seoul | Thailand: Bangkok | Vietnam: Hanoi |
        Indonesia: Jakarta | Malaysia: Kuala Lumpur | Australia: Canberra | New Zealand: Wellington |
        Canada: Ottawa | Mexico: Mexico City | Cuba: Havana | Peru: Lima | Chile: Santiago |
        Argentina: Buenos Aires | Brazil: Brasilia | Colombia: Bogota | Ecuador: Quito |
        Uruguay: Montevideo | Belgium: Brussels | Switzerland: Bern | the Netherlands: Amsterdam |
        the United Kingdom: London | the United States: Washington
        """
    )
)

OTHER_CITIES = plain_words(
    """
    Boston Chicago Seattle Dallas Denver Hamburg Munich Milan Venice Naples Lyon Nice Porto Seville Krakow
    Geneva Basel Osaka Kyoto Shanghai Mumbai Delhi Dubai Isfahan Shiraz Yazd Tabriz Lagos Sydney Perth
    Toronto Montreal Miami Phoenix Valencia Glasgow Antwerp Bergen Florence Marseille Leipzig Nagoya
    Brisbane Houston Manchester Cordoba Granada Turin Mashhad Vancouver Izmir Casablanca Dresden Bristol
    Cologne Zurich Salzburg Graz Malmo Tampere Cork Galway Leeds Oxford Austin Portland Memphis Recife
    """
)
CITIES = [*CAPITALS.values(), *OTHER_CITIES]

NAMES = plain_words(
    """
    Adam Alice Amir Anna Ben Bella Carl Clara Cyrus Dana David Diana Eli Emma Erik Eva Felix Fiona Frank
    Gina Greg Hana Hugo Ida Igor Ines Ivan Jack Jana Jonas Julia Kai Karl Kira Lars Laura Leo Lily Lina
    Luca Lucy Maria Mark Martin Maya Mia Milo Mina Nadia Nick Nina Noah Nora Olga Oscar Otto Pablo Paul
    Petra Rita Robin Rosa Ruth Sam Sara Simon Sofie Stella Tara Theo Tim Tina Tom Uma Vera Victor Wanda
    Will Yara Yusuf Zoe Omar Farah Kenji Yuki Ravi Priya Chen Ling Ahmed Layla Miriam Boris Selma Tobias
    Elena Marek Rahul Dorothy Quentin Amelia Gustav Naomi Hector Irene Jasper Linus Paloma Roland Sigrid
    Winston Bob Peter John Mary Susan
    """
)

COLOURS = plain_words(
    """
    red blue green yellow orange purple pink black white brown grey gold silver turquoise violet crimson
    teal indigo magenta beige
    """
)

WORDS = plain_words(
    """
    apple bread cat dog house tree river stone cloud rain snow wind fire water light night day moon sun
    star bird fish horse sheep goat mouse lion tiger bear wolf fox rabbit frog duck goose hen egg milk
    cheese butter honey sugar salt pepper rice corn bean leaf root seed flower grass field hill road
    bridge tower castle door window table chair lamp clock book page paper pencil brush paint music song
    drum flute violin piano dance ball kite boat ship train wagon wheel engine rocket planet ocean island
    beach shell sand wave storm thunder forest garden lake pond cave desert valley village market shop
    bakery school teacher doctor farmer baker sailor pilot king queen prince knight wizard witch giant
    fairy ghost robot monkey parrot turtle snail spider beetle butterfly camel elephant penguin whale
    dolphin shark octopus lemon grape cherry peach melon banana carrot potato tomato onion basket bottle
    bucket candle carpet blanket pillow button needle thread ribbon mirror ladder hammer basin copper iron
    magic secret dream story letter number summer winter spring autumn morning evening lantern pumpkin
    walnut hedgehog dragon tractor puppet kettle saddle cactus marble falcon sparrow trumpet velvet harbor
    glacier meadow pebble orchard compass helmet feather guitar pocket barrel cabin donkey ticket hello
    world computer keyboard library museum station airport mountain coffee breakfast dinner weather
    language token model matrix vector
    """
)

# Things and creatures that a story can be about.
STORY_THINGS = plain_words(
    """
    cat dog tree river stone cloud star bird fish horse sheep goat mouse lion tiger bear wolf fox rabbit
    frog duck goose hen flower castle lamp clock book pencil violin piano kite boat ship train rocket
    planet king queen prince knight wizard witch giant fairy ghost robot monkey parrot turtle snail spider
    beetle butterfly camel elephant penguin whale dolphin shark octopus lemon banana carrot potato bucket
    candle pillow mirror lantern pumpkin hedgehog dragon tractor puppet kettle cactus falcon sparrow
    trumpet feather guitar donkey snowman teapot sailor
    """
)

WEATHER = plain_words(
    """
    sunny cloudy rainy snowy windy foggy clear stormy
    """
)
