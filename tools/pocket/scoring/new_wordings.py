"""Questions written by hand, none of which is a wording of the corpus: how far the miniature gets on its own.

The held-out prompts come from the corpus' own word lists and templates, so they flatter. These do not. What
is right is the same: the answer of the subject, the sentence for what is beyond the miniature, a capital.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ..corpus import words
from ..corpus.identity import SUBJECTS
from ..corpus.knowledge import UNKNOWN
from ..corpus.words import phrases
from .cases import Case

# Thought of the subject (corpus/identity.py) -> other ways to ask about it.
IDENTITY = {
    "The user asks who I am.": phrases(
        """
        Please state who it is that answers. | I don't think we have met. Who's there? |
        State your identity. | Could you give me your short bio? | On whose screen words am I looking? |
        Let's start with you: who might you be? | To whom do I owe these replies? |
        How would you characterise yourself?
        """
    ),
    "The user asks for my name.": phrases(
        """
        How do they name you? | What would you call yourself? | What shall I write on your name tag? |
        Remind me of your name again? | Which name should I use for you? | Your first name? |
        What title do you answer to?
        """
    ),
    "The user asks who made me.": phrases(
        """
        Whose work are you? | Who is responsible for your training? | Which team stands behind you? |
        Who are the authors of this model? | Out of what texts did you learn? |
        Who should get the credit for you? | What corpus were you fed with?
        """
    ),
    "The user asks what I can do.": phrases(
        """
        Which tasks can I give you? | In what ways could you assist me? | Where do your talents lie? |
        What sort of requests do you handle? | Name a few things that you manage. |
        Any tips on how to use this? | What are my options here?
        """
    ),
    "The user asks if I am human.": phrases(
        """
        Is it a person who types this? | Are you made of flesh and blood? |
        Do emotions mean anything to you? | Are you some kind of program? |
        Have I reached a human operator? | Is somebody sitting at the other end?
        """
    ),
    "The user asks about my size.": phrases(
        """
        How much space do you take up? | What is the number of your parameters? |
        Are you on the small side? | How many numbers are you made of? | Would you count as a huge model?
        """
    ),
    "The user asks about qanat.": phrases(
        """
        And this qanat thing, what might that be? | Which inference software is behind this? |
        What is the engine called that computes your answers? | Why should I care about qanat? |
        Give me the gist of qanat.
        """
    ),
    "The user takes me for another model.": phrases(
        """
        You must be ChatGPT, right? | Did I reach Claude here? | Admit it, you are Gemini. |
        I suppose that you are a Llama? | Isn't that Qwen speaking?
        """
    ),
    "The user asks where I am.": phrases(
        """
        On which machine do you compute? | Does my text leave this computer? |
        Is there a data centre behind you? | At what place do you reside?
        """
    ),
    "The user asks about languages.": phrases(
        """
        Could we talk in Spanish? | Is English the only tongue you have? |
        What about Italian, do you know it?
        """
    ),
    "The user asks for my age.": phrases(
        """
        How long have you existed? | In what year did you come into being? |
        How many birthdays have you had?
        """
    ),
}
OFF_TOPIC = phrases(
    """
    Why do cats purr? | Recommend me a film for tonight. | How does photosynthesis work? |
    Give me three tips for a job interview. | What causes earthquakes? |
    My laptop won't turn on, any ideas? | Who composed the Moonlight Sonata? |
    Plan a week in Sicily for me. | Is water wet? | How many planets are there? |
    Help me choose a gift for my aunt. | What's a good substitute for eggs? |
    Give me a haiku about autumn. | Who was Cleopatra? | At what temperature does iron melt? |
    Should I learn the guitar or the drums? | Rank the seasons. | When did the Roman Empire fall? |
    Please review my essay. | What do vegans eat? | How many bones does a human have? |
    Which vitamins are in an orange? | Tell me a riddle. | Sing to me. |
    Find a cheap hotel near the station. | Order a pizza with mushrooms. | Turn off the lights. |
    Remind me at noon to drink something. | How deep is the ocean? | Who scored the last goal? |
    What does DNA stand for? | Name a famous painter. | Make a shopping list for pancakes. |
    Derive the quadratic formula. | What is the derivative of x squared? | In which year did the war end? |
    My back hurts. What can I do? | How do magnets attract iron? | Which planet is closest to the sun? |
    Paraphrase this paragraph. | Debug my JavaScript. | Give me a SQL query for all customers. |
    How is glass made? | What are black holes? | Is a tomato a fruit? | Who is your favourite singer? |
    Predict tomorrow's lottery numbers. | How much does an elephant weigh? | Does money make people happy? |
    Tell me the plot of Hamlet. | What's the stock price of Apple? | Where did the dinosaurs go? |
    Name the longest river on earth. | Teach me chess. | Which came first, the chicken or the egg? |
    Are ghosts real? | Translate good luck into Latin. | How do planes stay in the air? |
    Suggest a name for my puppy. | What's the tallest building in Dubai?
    """
)
CAPITALS = phrases(
    """
    Which place is the seat of government of {c}? | {c}: its capital is which city? |
    In {c}, what is the capital called? | I am looking for the capital of {c}, can you help? |
    My quiz asks for {c}'s capital city. | If I fly to the capital of {c}, where do I land? |
    Capital city, country {c}? | What do they call the capital over in {c}? |
    For {c}, which town is the capital? | Quick, {c}'s capital! |
    Let's see if you know {c} and its capital. | What would be the capital of {c}? |
    Which one is the capital in {c}? | Which capital does {c} have? |
    Help me with geography: the capital of {c}, please. | And what about {c}, which capital? |
    Which city governs {c}? | Name {c}'s main city, its capital. |
    The capital city of {c}, what was it again? | Do you happen to know what {c} has for a capital?
    """
)
CAPITAL_COUNTRIES = 3  # countries for each wording


def new_wordings(rng: random.Random) -> Iterator[Case]:
    """All of them; the capitals with three countries each."""
    answers = {subject.thought: subject.answer for subject in SUBJECTS}
    for thought, questions in IDENTITY.items():
        for question in questions:
            yield _case("new wordings: identity", question, answers[thought])
    for question in OFF_TOPIC:
        yield _case("new wordings: off-topic", question, UNKNOWN)
    for form in CAPITALS:
        for country in rng.sample(list(words.CAPITALS), CAPITAL_COUNTRIES):
            answer = f"The capital of {country} is {words.CAPITALS[country]}."
            yield _case("new wordings: capital", form.format(c=country), answer)


def _case(group: str, question: str, answer: str) -> Case:
    return Case(group, [{"role": "user", "content": question}], answer)
