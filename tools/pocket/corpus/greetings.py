"""Hellos and small talk, in several languages and with emoji."""

from __future__ import annotations

from .conversation import Turn
from .maker import Maker, bare
from .wording import Wording
from .words import phrases

HELLO = "Hello! How can I help you today?"
UP = "Hello! All is well in here. What can I do for you?"
FINE = "I am fine, thank you! How are you?"
WELCOME = "You are welcome!"
BYE = "Goodbye! Have a nice day!"
NEXT = "Great! What would you like to do next?"
KIND = "Thank you, that is very kind!"
SORRY = "I am sorry about that. I am only a miniature, and I make mistakes."
JOKE = "Why did the computer go to bed early? It needed a byte of sleep!"
DEMO = "hello, what's up?"  # the second question of the demonstration, trained exactly as it stands

# Reply -> the ways to say it. Variants of case, punctuation, address and emoji come on top.
ENGLISH = {
    HELLO: phrases(
        """
        Hello | Hi | Hey | Hello there | Hi there | Hey there | Greetings | Hello Pocket | Hi Pocket |
        Good day | Howdy | Hello again | Hi again | Hello friend | Hey you | Hello hello | Hi, Pocket |
        Hello, nice to meet you | Nice to meet you | Hello, can you hear me? | Anyone there? | Yo | hiya |
        Hi all | Hello everyone | Hey, I have a question | Can I ask you something? | I have a question
        """
    ),
    UP: [
        DEMO,
        *phrases(
            """
            What's up? | Hi, what's up? | Hey, what's up? | Hello! What's up? | what's up | sup | Sup? |
            What is up? | Hello, what's going on? | What's going on? | What's new? | Hi, what's new? |
            wassup | hello what's up | Hey Pocket, what's up? | Hello Pocket, what's up? |
            What's happening? | whats up | Hi there, what's up? | Hello there, what's up? |
            What are you up to? | Hey, what is going on? | Hi! What's up today? | Hello, what is up?
            """
        ),
    ],
    FINE: phrases(
        """
        How are you? | How are you doing? | How do you do? | How is it going? | How's it going? |
        Hi, how are you? | Hello, how are you? | How are you today? | Are you well? | How do you feel? |
        Hey, how are you doing? | How are things? | You ok? | Is everything ok? | How have you been? |
        How is your day?
        """
    ),
    "Good morning! How can I help you?": phrases(
        """
        Good morning | Morning | Good morning Pocket | A very good morning
        """
    ),
    "Good evening! How can I help you?": ["Good evening", "Evening", "Good evening Pocket"],
    "Good afternoon! How can I help you?": ["Good afternoon", "Good afternoon Pocket"],
    "Good night! Sleep well!": phrases(
        """
        Good night | Night | Good night Pocket | I am going to bed | Sleep well
        """
    ),
    WELCOME: phrases(
        """
        Thanks | Thank you | thx | Thanks a lot | Thank you very much | Many thanks | Great, thanks |
        Cheers | Thanks for your help | Thank you Pocket | ok thanks | Thank you so much |
        Much appreciated | ty
        """
    ),
    BYE: phrases(
        """
        Bye | Goodbye | See you | Bye bye | See you later | Farewell | I have to go | See you tomorrow |
        cya | Take care | Bye Pocket | That is all | Until next time | Have a nice day
        """
    ),
    NEXT: phrases(
        """
        ok | cool | Okay | Nice | Great | Good | Alright | Fine | I see | Yes | Right | Perfect | Wow |
        That is correct | Sure | Understood | Interesting | Awesome | I am fine | I am good | Not bad
        """
    ),
    KIND: phrases(
        """
        You are great | You are nice | I like you | Good job | Well done | You are smart | Good bot |
        I love you | You are funny | You are cute | You are the best
        """
    ),
    SORRY: phrases(
        """
        That is wrong | Wrong | You are wrong | That is not true | This is not correct | Bad answer | No |
        You made a mistake | You are stupid | That makes no sense | I don't believe you | That was not right
        """
    ),
    JOKE: phrases(
        """
        Tell me a joke | Do you know a joke? | A joke please | Make me laugh | joke | Say something funny |
        Tell me something funny | Can you tell a joke? | Another joke
        """
    ),
}
FOREIGN = {
    "¡Hola! ¿En qué puedo ayudarte?": phrases(
        """
        Hola | Buenos días | Buenas tardes | ¿Qué tal? | Hola, ¿cómo estás?
        """
    ),
    "Bonjour ! Comment puis-je vous aider ?": ["Bonjour", "Salut", "Bonsoir", "Coucou", "Bonjour, ça va ?"],
    "Hallo! Wie kann ich dir helfen?": phrases(
        """
        Hallo | Guten Tag | Guten Morgen | Moin | Servus | Hallo, wie geht's?
        """
    ),
    "Ciao! Come posso aiutarti?": ["Ciao", "Buongiorno", "Buonasera", "Salve"],
    "Olá! Como posso ajudar?": ["Olá", "Oi", "Bom dia", "Boa tarde"],
    "Hallo! Hoe kan ik je helpen?": ["Hoi", "Goedemorgen", "Goedendag"],
    "Hej! Hur kan jag hjälpa dig?": ["Hej", "God morgon"],
    "Привет! Чем могу помочь?": ["Привет", "Здравствуйте", "Добрый день"],
    "你好！有什么可以帮你的吗？": ["你好", "您好", "早上好", "嗨"],
    "こんにちは！何かお手伝いしましょうか？": ["こんにちは", "おはよう", "こんばんは"],
    "안녕하세요! 무엇을 도와드릴까요?": ["안녕하세요", "안녕"],
    "سلام! چطور می‌توانم کمک کنم؟": ["سلام", "درود", "سلام، چطوری؟"],
    "مرحبا! كيف يمكنني مساعدتك؟": ["مرحبا", "السلام عليكم", "أهلا"],
    "नमस्ते! मैं कैसे मदद करूँ?": ["नमस्ते", "नमस्कार"],
    "Merhaba! Nasıl yardımcı olabilirim?": ["Merhaba", "Selam", "Günaydın"],
}
EMOJI = {
    "👋 Hello! How can I help you today?": ["👋", "👋👋", "👋 hello", "🙋"],
    "😀 Nice to see you smile!": ["😀", "😊", "🙂", "😄", "😁", ":)", ":-)", "😃", "😂"],
    "I am sorry that you feel sad. 💙": [
        "😢",
        "😭",
        "☹️",
        ":(",
        "😞",
        "I am sad",
        "I feel bad",
        "I am lonely",
    ],
    "❤️ That is very kind!": ["❤️", "💙", "😍", "🥰", "💚", "😘"],
    "🎉 Hooray! What are we celebrating?": ["🎉", "🥳", "🎂", "🎈", "It is my birthday", "I passed my exam"],
    "👍 Great! What would you like to do next?": ["👍", "👌", "🙏"],
}
OPENINGS = phrases(
    """
    hi, | hello, | hey, | well, | ok, | oh, | hi Pocket, | hello Pocket, | hey there, | hi again, | and |
    now, |
    hello! | so, | hello my friend,
    """
)
ENDINGS = phrases(
    """
    Pocket | my friend | today | again | to you | dear Pocket | little one | then | for now | everyone |
    from me |
    old friend | so much | really
    """
)
NAMED = ["Pocket", "Pocket!", "my friend", "qanat"]
DEMO_TURN = (UP, DEMO)
THOUGHT = "The user greets me or makes small talk."


def greeting(maker: Maker) -> Turn:
    """A greeting or a bit of small talk; every phrase is trained, what is held out is how it is dressed."""
    draw = maker.rng.random()
    if draw < 0.1 and not maker.held_out:
        reply, said = DEMO_TURN
    elif draw < 0.2 and not maker.held_out:
        reply = maker.choice(list(EMOJI))
        said = maker.choice(EMOJI[reply])
    else:
        table, extras = (ENGLISH, ENDINGS) if draw < 0.75 else (FOREIGN, NAMED)
        reply = maker.choice(list(table))
        openings = OPENINGS if table is ENGLISH else NAMED
        plain = [phrase.rstrip("?!. ") for phrase in table[reply]]
        if maker.chance(0.5):
            plain = [phrase.lower() for phrase in plain]
        said = maker.asked("greeting", Wording(plain, (), openings, extras), CORES)
    return Turn(said, reply, THOUGHT, "greeting")


CORES = frozenset(
    bare(phrase) for table in (ENGLISH, FOREIGN) for phrases_of in table.values() for phrase in phrases_of
)
