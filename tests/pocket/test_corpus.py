"""The corpus of the built-in model: its text is the template's, and what is held out stays out."""

from __future__ import annotations

import random

from assets import POCKET, SHARED, needs_shared
from qanat.text import ChatTemplate, Tokenizer
from tools.pocket.corpus import (
    SKILLS,
    Fragments,
    Maker,
    conversation,
    is_held_out,
    messages,
    pair_is_held_out,
    pieces,
    text_of,
)
from tools.pocket.corpus.arithmetic import addition_steps, subtraction_steps

FRAGMENTS = Fragments(first=("ka", "lum", "s"), capital=("Be", "T"), inner=("ri", "on", "x"))


def maker(seed: int, held_out: bool = False) -> Maker:
    return Maker(random.Random(seed), FRAGMENTS, held_out)


def check_against(template: ChatTemplate, count: int) -> None:
    source = maker(11)
    for _ in range(count):
        made = conversation(source)
        rendered = template.render(messages(made), tools=list(made.tools) or None)
        assert text_of(made) == rendered


def test_conversations_are_rendered_as_the_models_own_template_does() -> None:
    check_against(ChatTemplate.from_folder(POCKET), 300)


@needs_shared
def test_conversations_are_rendered_as_the_official_template_does() -> None:
    source = (SHARED / "qwen3.5" / "2B" / "chat_template.jinja").read_text(encoding="utf-8")
    check_against(ChatTemplate(source, {}), 300)


def test_the_prompt_of_each_reply_is_what_the_template_opens() -> None:
    template, source = ChatTemplate.from_folder(POCKET), maker(12)
    for _ in range(100):
        made = conversation(source)
        chat = messages(made)
        prompt = template.render(
            chat[:-1],
            tools=list(made.tools) or None,
            add_generation_prompt=True,
            enable_thinking=made.thinking,
        )
        assert text_of(made).startswith(prompt)


def test_cutting_a_conversation_into_pieces_changes_no_token() -> None:
    tokenizer, source = Tokenizer.from_folder(POCKET), maker(13)
    for _ in range(100):
        made = conversation(source)
        ids = [i for piece in pieces(made) for i in tokenizer.encode(piece.text)]
        assert ids == tokenizer.encode(text_of(made))


def test_only_what_the_assistant_writes_is_learnt() -> None:
    source = maker(14)
    for _ in range(100):
        learnt = "".join(piece.text for piece in pieces(conversation(source)) if piece.learnt)
        assert "<|im_start|>" not in learnt
        assert "<tool_response>" not in learnt


def test_held_out_pairs_stay_out_in_both_orders() -> None:
    held = [(a, b) for a in range(100) for b in range(100) if pair_is_held_out("+", a, b)]
    assert all(pair_is_held_out("+", b, a) for a, b in held)
    assert 0.06 < len(held) / 10_000 < 0.11
    assert not any(max(pair) < 10 for pair in held)


def test_invented_words_keep_to_their_side() -> None:
    assert not any(is_held_out("word", maker(seed).invented()) for seed in range(300))
    assert all(is_held_out("word", maker(seed, held_out=True).invented()) for seed in range(100))


def test_a_quarter_of_the_differences_and_more_is_negative() -> None:
    source = maker(17)
    answers = [SKILLS["subtraction"](source).answer for _ in range(2_000)]
    assert sum("= -" in answer for answer in answers) >= 500


def test_the_steps_of_sums_are_right() -> None:
    for a in range(0, 100, 3):
        for b in range(0, 100, 7):
            for steps, result in (
                (addition_steps(a, b), a + b),
                (subtraction_steps(a, b), a - b),
            ):
                for line in steps.splitlines():
                    if "=" in line:
                        left, right = line.split(" = ")
                        assert eval(left) == int(right), line
                assert steps.endswith(f"= {result}")


def test_the_same_seed_gives_the_same_corpus() -> None:
    first, again = maker(18), maker(18)
    assert [conversation(first) for _ in range(50)] == [conversation(again) for _ in range(50)]
