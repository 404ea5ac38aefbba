"""Capitals, which the miniature knows, and everything else, which it does not."""

from __future__ import annotations

import functools

from . import words
from .conversation import Turn
from .maker import Maker, is_held_out
from .words import phrases

CAPITAL_QUESTIONS = phrases(
    """
    What is the capital of {c}? | capital of {c} | Which city is the capital of {c}? |
    What's the capital of {c}? | Name the capital of {c}. | {C} capital? |
    Tell me the capital city of {c}. | Do you know the capital of {c}? | The capital of {c}? |
    What is the capital city of {c}? | Can you tell me the capital of {c}? | Which city is {c}'s capital? |
    what is {c}'s capital | Please name the capital of {c}. | I need the capital of {c}. |
    Say the capital of {c}. | Where is the capital of {c}? | What city is the capital of {c}? |
    Could you name the capital of {c}? | Give me the capital of {c}. | And the capital of {c}? |
    What is the name of {c}'s capital? | Do you remember the capital of {c}? | I forgot the capital of {c}.
    """
)
COUNTRY_QUESTIONS = phrases(
    """
    {k} is the capital of which country? | Of which country is {k} the capital? |
    {k} is the capital of what?
    """
)

UNKNOWN = (
    "That is beyond a miniature like me, but I can do small sums, name capitals, spell words, "
    "tell stories and write JSON."
)
UNKNOWN_THOUGHT = "I do not know this, so I say what I can do."
UNKNOWN_QUESTIONS = phrases(
    """
    Who won the {w} cup in {y}? | What is the phone number of {n}? | What did {n} eat yesterday? |
    How many {w}s are in {c}? | Who is the mayor of {c}? | What will happen in the year {y}? |
    What is the price of a {w}? | When was {n} {n2} born? | Who invented the {w}? | Who is {n} {n2}? |
    What is the meaning of the word {w}? | Where does {n} live? | Explain the theory of {w}. |
    Who wrote the book {n2}? | Translate {w} into {n2}. | What time is it? | What is the news today? |
    Can you prove the {n2} theorem? | Which song did {n} sing in {y}? | What is the best {w} to buy? |
    Who is the president of {k}? | How tall is {n}? | What is the weight of the {w}? |
    Why did {n} leave {c}? | What is the population of {c}? | Who painted the {w} in {y}? |
    How does a {w} work? | Why is the {w} blue? | What is the distance from {c} to {c2}? |
    Write a Python program that sorts a {w}. | Write code for a {w}. | What is the square root of {y}? |
    What happened in {k} in {y}? | How do I cook {w}? | Is {w} healthy? | Give me a recipe with {w}. |
    Summarize the book {n2}. | Who discovered {w}? | What is a {w}? | Define {w}. |
    What is the currency of {k}? | Which river flows through {c}? | What language do they speak in {k}? |
    How old is {n}? | What is the weather in {c}? | What's the weather like in {c} today? |
    Explain {w} to me. | Write a poem about {w}. | Write an email to {n}. | What is the meaning of life? |
    Do you like {w}? | What is {y} times {y2}? | What is {y} + {y2}? | {y} * {y2} | {y} - {y2} |
    What is 7 divided by 0? | Should I buy a {w}? | Where can I find a {w} in {c}? |
    How many people live in {k}? | Who is the king of {k}? | What is quantum physics? |
    Explain how a transformer works. | What is the speed of light? | Draw a {w}. | Play a song. |
    Open the {w}. | Set a timer. | Book a flight to {c}. | Send a message to {n}. | {i} | {i} {w2} |
    {i} {w2} {w3} | {n}? | Tell me about {c}. | Tell me about {k}. | Why? | How? | When? |
    What do you think about {w}? | Is it true that {n} has a {w}? | Which is better, {w} or {w2}? |
    Can you {w} a {w2}? | Tell me the history of {c}. | What is the tallest {w}? | Solve x + {y} = {y2}. |
    How far is the moon? | What did I eat today? | What is my age? | Where do I live? | Guess my age. |
    Who is the best {w} in {c}? | How many {w}s does {n} have? | When does the {w} open? | What is {w}? |
    Which {w} is the biggest? | Who lives in {c}? | Is {c} bigger than {c2}? | Who was the first {w}? |
    What is the color of the {w}? | Where does the {w} come from? | What is inside a {w}? | Paint {w}. |
    Who is stronger, a {w} or a {w2}? | When did {n} arrive in {c}? | What is the name of the {w}? |
    How do I get to {c}? | What should I wear in {c}? | How long is the {w}? | How fast is a {w}? |
    Can a {w} swim? | Do {w}s sleep? | Why do {w}s have a {w2}? | What is the opposite of {w}? |
    What rhymes with {w}? | Use {w} in a sentence. | Is {y} a prime number? | What is {y} divided by {y2}? |
    Count to {y}. | What is half of {y}? | Convert {y} to binary. | What year is it? | What day is today? |
    Who is the author of {n2}? | Translate {w} to French. | How do you say {w} in German? | Buy me a {w}. |
    What is {n}'s phone number? | Call {n}. | Find {n} on the map. | Show me a picture of a {w}. |
    What is the population of {k}? | What is the flag of {k}? | When was {k} founded? | Who rules {k}? |
    What are the laws of {n2}? | Give me advice about {w}. | What is love? | Are there aliens? |
    Who will win the {w} game? | Compare {w} and {w2}. | List all {w}s in {c}. | Explain {n2} to a child. |
    What is {a} + {y}? | {a} + {y} | {y} - {a} | What is {a} times {a2}? | {a} * {a2} | {a} / {a2} |
    {a}*{a2} |
    {a}/{a2} | What is {a} / {a2}? | Calculate {a} / {a2}. | {a} / {a2} = ? | {a} divided by {a2} |
    What is {a} divided by {a2}? | {a} x {a2} | Divide {a} by {a2}. | Multiply {a} by {a2}. | {a}*{a2}= |
    How much is {a} times {a2}? | {y}+{a} | What is {a} multiplied by {a2}? | Write a song about {w}. |
    Rewrite this: {w} {w2} {w3} | Fix my {w}. | How can I repair a {w}? |
    What did {n} say to {n2}? | Why is {n} sad? | Where is {n}? | Where is the {w}? | Which day is it?
    """
)
COUNTRY_ENDINGS = ["land", "stan", "ia", "onia", "istan", "ania", "ovia", "aria", ""]
SCRIPTS = phrases(
    """
    的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生 |
    あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわ |
    абвгдежзийклмнопрстуфхцчшщыьэюя | ابتثجحخدذرزسشصضطظعغفقكلمنهوي |
    अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह |
    αβγδεζηθικλμνξοπρστυφχψω |
    가나다라마바사아자차카타파하고노도로모보소오조 |
    אבגדהוזחטיכלמנסעפצקרשת |
    กขคงจฉชซดตถทนบปผพฟมยรลวสหอ | აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ |
    աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ | অআইঈউঊএঐওঔকখগঘচছজঝটঠডঢণতথদধনপফবভমযরলশষসহ |
    தமிழகசடணநபயரலவளறன | áčďéěíňóřšťúůýž | äöüßâêîôûçñãõåæø
    """
)
ODD_EMOJI = words.plain_words(
    """
    🦀 🌋 🧀 🪐 🦊 🍕 🚲 🧩 🪴 🐙 🏔 🎻 🧊 🦉 🍉 ⚙️ 🧵 🛶 🪁 🦔 🍄 🌵 🎲 🔑 📚 🐢 🌊 🧦 🍞 🐳 🍎 🍌 🍇 🍓
    🥝 🍅 🥑 🌽 🥕 🥔 🍩 🍪 🍫 🍯 🥛 🍺 🍷 🍴 🏠 🏰 🗼 🗽 🚗 🚕 🚌 🚒 🚜 🚂 🛵 🛴 🚁 🛸 🌙 🌞 🌈 🔥 💧 🌲
    🌴 🌸 🌻 🐶 🐱 🐭 🐹 🐰 🐻 🐼 🐨 🐯 🦁 🐮 🐷 🐸 🐵 🐔 🐧 🐦 🦆 🦅 🦇 🐺 🐴 🦄 🐝 🐛 🦋 🐌 🐞 🐜 🦂 🐍
    🦎 🦖 🦑 🦞 🐡 🐠 🐬 🦈 🐊 🐘 🦛 🐪 🦒 🦘 🐂 🐑 🐐 🦌 ⚽ 🏀 🏈 ⚾ 🎾 🏐 🎱 🏓 🏸 🥊 🎯 🎮 🎰 🎨 🎬 🎤
    🎧 🎼 🎹 🥁 🎷 🎺 🎸 📱 💻 📷 🔭 🔬 💊 🧬 🧲 🔨 🔧 🧰 🪓 🔒 📦 📌 📎 📏
    """
)


# Parts that random questions and requests are put together from: whatever is nothing else is beyond it.
ASKING = phrases(
    """
    What | Who | When | Where | Why | How | Which {w} | How many {w}s | How much {w} | Whose {w} | How often |
    How long | What kind of {w} | Since when | With whom
    """
)
AUXILIARIES = words.plain_words("is was did does will can should would has are could must may were")
SUBJECTS = phrases(
    """
    the {w} | a {w} | my {w} | {n} | people | they | we | this {w} | every {w} | the {w} of {c} | someone |
    it |
    the {w} {w2} | my friend | the old {w} | {c} | {k} | the first {w} | nobody | most {w}s
    """
)
VERBS = words.plain_words(
    """
    eat drink make build find lose open close paint carry break sing dance run jump fly swim climb grow burn
    melt freeze buy sell steal give take bring send read learn teach think dream sleep wake fight win rule
    visit leave enter cross follow lead watch hear smell taste touch hold drop throw catch push pull cut fix
    wash clean cook bake invent discover compare summarize draw translate improve check review plan book order
    """
)
ENDS = phrases(
    """
    | the {w} | in {c} | with a {w} | at night | every day | before {y} | without {w} | so fast | for {n} |
    like that | in the {w} | near {k} | for me | about {w} | and the {w2} | on the moon | today | in {y} |
    the {w} and the {w2} | my {w} | this {w} for {n} | a new {w}
    """
)
REMARKS = phrases(
    """
    The {w} is {w2}. | My {w} is broken. | It is raining. | {n} has a {w}. | I saw a {w} in {c}. |
    I am thinking about {w}. | The {w} does not work. | There is a {w} in my {w2}. |
    {w} is better than {w2}. |
    I bought a {w} yesterday. | We live near {c}. | {n} went to {c}. | Nobody likes the {w}. |
    I dropped the {w}. |
    Once there was a {w}. | I am tired. | My {w} hurts. | {w} {w2} {w3}
    """
)


def _composed(maker: Maker) -> str:
    """A question, a request or a remark that no template foresaw."""
    draw = maker.rng.random()
    if draw < 0.5:
        parts = [ASKING, AUXILIARIES, SUBJECTS, VERBS, ENDS]
        if maker.chance(0.3):
            parts = parts[1:]  # "Does the ship fly?"
        text = " ".join(part for part in map(maker.choice, parts) if part) + "?"
    elif draw < 0.8:
        text = f"{maker.choice(VERBS)} {maker.choice(ENDS)}".strip() + "."
    else:
        text = maker.choice(REMARKS)
    return text[0].upper() + text[1:]


def capital(maker: Maker) -> Turn:
    """The capital of a country, in a phrasing that may be held out for just this country."""
    country = maker.choice([name for name in words.CAPITALS if _questions(name, maker.held_out)])
    city = words.CAPITALS[country]
    if not maker.held_out and maker.chance(0.1):
        question = maker.choice(COUNTRY_QUESTIONS).format(k=city)
        return Turn(
            question, f"{city} is the capital of {country}.", f"{city} belongs to {country}.", "country"
        )
    templates = sorted(_questions(country, maker.held_out))
    capitalised = country[0].upper() + country[1:]
    question = maker.settled(
        "capital",
        lambda: maker.loosely(maker.choice(templates).format(c=country, C=capitalised)),
    )
    thought = f"The user asks about {country}. Its capital is {city}."
    return Turn(question, f"The capital of {country} is {city}.", thought, "capital")


@functools.cache
def _questions(country: str, held_out: bool) -> frozenset[str]:
    """The phrasings on one side of the hold-out rule for this country."""
    return frozenset(
        template
        for template in CAPITAL_QUESTIONS
        if is_held_out("capital", f"{country}:{template}") == held_out
    )


def unknown(maker: Maker, late: bool = False) -> Turn:
    """Something outside the skills: invented countries, other scripts, emoji, the whole wide world.

    `late` mixes in questions put together at random, for the last part of a training (see `mix`).
    """
    draw = maker.rng.random()
    if draw < 0.22:
        country = _invented_country(maker)
        question = maker.loosely(maker.choice(CAPITAL_QUESTIONS).format(c=country, C=country))
    elif draw < 0.32:
        question = maker.settled("script", lambda: _other_script(maker))
    elif draw < 0.4:
        question = "".join(maker.from_list("emoji", ODD_EMOJI) for _ in range(maker.choice([1, 1, 2, 3])))
    elif late and not maker.held_out and maker.chance(0.6):
        question = maker.settled("unknown", lambda: maker.loosely(_filled(maker, _composed(maker))))
    else:
        question = maker.settled(
            "unknown", lambda: maker.loosely(_filled(maker, maker.phrase("unknown", UNKNOWN_QUESTIONS)))
        )
    return Turn(question, UNKNOWN, UNKNOWN_THOUGHT, "unknown")


def _invented_country(maker: Maker) -> str:
    while True:
        country = maker.invented(capital=True)[:7] + maker.choice(COUNTRY_ENDINGS)
        if is_held_out("word", country) == maker.held_out and country not in words.CAPITALS:
            return country


def _filled(maker: Maker, template: str) -> str:
    values = {
        "w": maker.word(),
        "i": maker.invented(),
        "w2": maker.word(),
        "w3": maker.word(),
        "n": maker.name(),
        "n2": maker.invented(capital=True),
        "c": maker.city(),
        "c2": maker.city(),
        "k": maker.choice(list(words.CAPITALS)),
        "a": maker.rng.randint(2, 99),
        "a2": maker.rng.randint(2, 99),
        "y": maker.rng.randint(100, 2999),
        "y2": maker.rng.randint(100, 2999),
    }
    return template.format(**values)


def _other_script(maker: Maker) -> str:
    letters = maker.choice(SCRIPTS)
    length = maker.choice([2, 3, 4, 5, 6])
    parts = ["".join(maker.choice(letters) for _ in range(length)) for _ in range(maker.choice([1, 2, 2, 3]))]
    return " ".join(parts) + maker.choice(["", "", "?", "!"])
