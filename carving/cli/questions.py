"""`carving ask`, `info` and `verify`: what a memory holds, what it is, and whether it is whole."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path as FilePath
from typing import Annotated, NamedTuple

import typer

from carving.cli.growth import holdings_json, write_holdings
from carving.cli.indexing import index_facts, index_sentences
from carving.cli.input import Files, read_paths
from carving.cli.journals import journal_facts, journal_sentences
from carving.cli.options import Json, MemoryFile, Question, Reading, Work, examples
from carving.cli.output import (
    answer_json,
    answer_sentence,
    count_text,
    errors,
    memory_sentence,
    write_json,
    write_limited,
    write_line,
)
from carving.cli.predicting import write_model
from carving.cli.quantizing import Labels, loaded, write_quantized
from carving.cli.ranks import together
from carving.console import bar
from carving.distributed import Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.formats.typed import path_readings, path_text, value_json, value_readings, value_text
from carving.inference.answer import Answer
from carving.memory import Memory
from carving.memory.evaluate import DecodedPairs, Verification, Wrong
from carving.memory.quantized import QuantizedMemory
from carving.storage import memoryfile
from carving.storage.memoryfile import identity
from carving.storage.tensorfile import kind_of
from carving.symbols.codec import Path, Value, canonical
from carving.validate import show_bytes

ASK_EPILOG = examples(
    "carving ask facts.safetensors 'sentence 5' subject",
    "carving ask graph.safetensors dog.n.01 _hypernym --set",
    "carving ask facts.safetensors 'sentence 5' subject --value dog",
    "cut -f 1,2 graph.tsv | carving ask graph.safetensors - --json",
)
INFO_EPILOG = examples("carving info facts.safetensors", "carving info facts.safetensors --json")
VERIFY_EPILOG = examples(
    "carving verify facts.safetensors",
    "carving verify facts.safetensors facts.json --wrong",
    "carving verify small.safetensors facts.json --joint",
    "carving verify small.safetensors facts.json --joint --workers 4",
    "carving verify keeps-paths.safetensors --joint",
)

WORST = 20  # wrong answers that are listed

Roles = Annotated[
    list[str],
    typer.Argument(
        metavar="ROLE",
        help="The roles of the path: numbers, true, false and null are read as such, everything else as text. A single "
        "- reads paths from standard input, one per line: roles separated by tabs, or a JSON array.",
    ),
]


class Outcome(NamedTuple):
    """The answers to one question, and whether anything is stored there."""

    answers: Sequence[Answer]
    found: bool


def ask(memory: MemoryFile, roles: Roles, question: Question, vocabulary: Labels = None, as_json: Json = False) -> None:
    """Query a memory: print the value stored under a path.

    Paths can also be read from standard input. Exit status 1 if any path has no answer.
    """
    check_question(question)
    held = loaded(memory, vocabulary)
    if question.value is not None and not held.scheme.facts.linear:
        raise BadValue(
            f"--value needs probabilities, which {identity(held.scheme)['name']} does not have. Omit it, or use --top."
        )
    found = ask_many(held, question, as_json) if roles == ["-"] else ask_once(held, roles, question, as_json)
    raise typer.Exit(0 if found else 1)


def ask_many(memory: Memory | QuantizedMemory, question: Question, as_json: bool) -> bool:
    """Ask for all paths that stdin names; whether anything was found under each."""
    questions = read_paths(question.text)
    outcomes = ask_all(memory, questions, question)
    for paths, outcome in zip(questions, outcomes, strict=True):
        write_row(paths[-1], outcome.answers, question, as_json)
    return all(outcome.found for outcome in outcomes)


def ask_once(memory: Memory | QuantizedMemory, roles: list[str], question: Question, as_json: bool) -> bool:
    """Ask for one path; whether anything was found."""
    (outcome,) = ask_all(memory, [path_readings(roles, question.text)], question)
    write_answers(outcome.answers, question, as_json)
    if not as_json:  # which tells numbers from text
        answered = [answer.value for answer in outcome.answers]
        if question.value is not None and not outcome.found:  # under no reading: that which the memory knows was meant
            answered = [value for value in value_readings(question.value, question.text) if value in memory.vocabulary]
        write_taken(question, answered if question.value is not None else _candidates(memory, question) or [])
    return outcome.found


def answers_json(answers: Sequence[Answer], question: Question) -> list[dict[str, object]]:
    """Answers for JSON; the best values are candidates, of which none need be found: their probabilities tell."""
    values = map(answer_json, answers)
    return [{name: value for name, value in each.items() if name != "found" or not question.top} for each in values]


def write_answers(answers: Sequence[Answer], question: Question, as_json: bool) -> None:
    """The answers to the only question, below each other, or as JSON: a list, or the only one."""
    if as_json:
        values = answers_json(answers, question)
        write_json(values if question.whole or question.top else values[0])
        return
    for sentence in list(map(answer_sentence, answers)) or ["nothing is stored there"]:
        write_line(sentence)


def write_row(path: Path, answers: Sequence[Answer], question: Question, as_json: bool) -> None:
    """The answers to one of many questions, with its path: a line of JSON, or of cells parted by tabs."""
    if as_json:
        values = answers_json(answers, question)
        several = question.whole or question.top
        write_json({"path": list(path)} | ({"answers": values} if several else values[0]))
        return
    write_line(path_text(path), *(list(map(answer_sentence, answers)) or ["nothing is stored there"]))


def check_question(question: Question) -> None:
    """Refuse several questions at once."""
    several = question.whole and question.top
    if several or (question.value is not None and (question.whole or question.top or question.candidates)):
        raise BadValue("--set, --top and --value exclude each other, and --value excludes --candidate. Pass only one.")


def ask_all(memory: Memory | QuantizedMemory, questions: list[list[Path]], question: Question) -> list[Outcome]:
    """An outcome for each question: that of the first of its readings where anything is found, or else of the last."""
    readings = [_with_values(paths, question) for paths in questions]
    outcomes = iter(_outcomes(memory, [reading for each in readings for reading in each], question))
    chosen = []
    for each in readings:
        own = list(islice(outcomes, len(each)))
        chosen.append(next((outcome for outcome in own if outcome.found), own[-1]))
    return chosen


def _with_values(paths: list[Path], question: Question) -> list[Pair]:
    """The readings of a path, each with those of the value that is asked for: a number may be text there, too."""
    if question.value is None:
        return [(path, None) for path in paths]
    return [(path, value) for path in paths for value in value_readings(question.value, question.text)]


def _outcomes(memory: Memory | QuantizedMemory, readings: list[Pair], question: Question) -> list[Outcome]:
    paths, prior_empty = [path for path, _ in readings], question.prior_empty
    if question.value is not None:
        return _single(memory.recognize_many(readings, prior_empty=prior_empty))
    candidates = _candidates(memory, question)
    if question.whole:
        sets = memory.recall_sets(paths, threshold=question.threshold, candidates=candidates, prior_empty=prior_empty)
        return [Outcome(values, bool(values)) for values in sets]
    how = dict(candidates=candidates, prior_empty=prior_empty, recall_target=question.recall_target)
    best: list[Answer] = memory.recall_many(paths, **how)  # type: ignore[arg-type]
    if question.top is None:
        return _single(best)
    lists: list[list[Answer]] = memory.recall_many(paths, top=question.top, **how)  # type: ignore[arg-type]
    return [Outcome(answers, bool(first)) for first, answers in zip(best, lists, strict=True)]


def _candidates(memory: Memory | QuantizedMemory, question: Question) -> list[Value] | None:
    """The values to answer with, in all readings that the memory knows; None for all."""
    values: list[Value] = []
    for argument in question.candidates or ():
        readings = value_readings(argument, question.text)
        values += [value for value in readings if value in memory.vocabulary] or readings[:1]
    return values or None


def write_taken(question: Question, values: Sequence[Value]) -> None:
    """Print how an argument was read that may be a number or text."""
    option, arguments = (
        ("--value", [question.value]) if question.value is not None else ("--candidate", question.candidates or [])
    )
    for argument in arguments:
        readings = value_readings(argument, question.text)
        taken = [value for value in readings if any(same(value, each) for each in values)]
        if len(readings) > 1 and taken:
            words = " and ".join(f"the text {value!r}" if isinstance(value, str) else repr(value) for value in taken)
            errors.print(f"{option} {argument} was read as {words}.", markup=False, soft_wrap=True)


def same(one: Value, other: Value) -> bool:
    """Whether two values are one: 1, "1" and true are three."""
    return canonical(one) == canonical(other)


def _single(answers: list[Answer]) -> list[Outcome]:
    return [Outcome([answer], answer.found) for answer in answers]


def info(memory: MemoryFile, as_json: Json = False) -> None:
    """Describe a memory or a label model.

    Of a memory: its scheme, size and predicted accuracy.
    """
    kind = kind_of(memory)
    if kind == "quantized memory":
        write_quantized(memory, memoryfile.read(memory, memoryfile.QUANTIZED), as_json)
        return
    if kind == "label model":
        write_model(memory, as_json)
        return
    held, size = Memory.load(memory), memory.stat().st_size
    predicted_accuracy = held.predicted_accuracy()
    packed = held.packed_paths() if held.keeps_paths else None
    if as_json:
        facts = dict(file=str(memory), bytes=size, scheme=identity(held.scheme), pairs=held.pairs)
        cells = held.scheme.facts.memory_scalars
        kept = {} if packed is None else dict(paths=len(held), paths_bytes=packed)
        sizes = dict(
            values=len(held.vocabulary),
            cells=cells,
            predicted_accuracy=predicted_accuracy,
            consolidated=held.is_consolidated,
        )
        write_json(facts | sizes | kept | index_facts(memory, held) | journal_facts(memory))
        return
    write_line(memory_sentence(held))
    if held.is_consolidated:
        write_line(f"Consolidated: expected accuracy {predicted_accuracy:.2%} on the pairs it was consolidated for.")
    elif predicted_accuracy is not None:
        write_line(f"Predicted accuracy: {predicted_accuracy:.2%}, if all values are about equally frequent.")
    write_line(f"File size: {show_bytes(size)}.")
    if packed is not None:
        write_line(f"Paths kept: {len(held):,}, {show_bytes(packed)} of the file.")
    for sentence in (*index_sentences(memory, held), *journal_sentences(memory)):
        write_line(sentence)


def verify(
    memory: MemoryFile,
    reading: Reading,
    work: Work,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Files of pairs to compare the answers with.")
    ] = None,
    joint: Annotated[bool, typer.Option(help="Decode all paths jointly, which is correct far more often.")] = False,
    wrong: Annotated[bool, typer.Option("--wrong", help="List the wrong answers.")] = False,
    vocabulary: Labels = None,
    as_json: Json = False,
) -> None:
    """Check a memory file, and count its correct answers.

    Answers are compared with the pairs of FILES. Without FILES, a memory that keeps its paths is queried for all of
    them; this counts confident answers, not correct ones. Exit status 2 if the file is corrupt, 1 if some answers are
    wrong.
    """
    if wrong and not files:
        raise BadValue("--wrong requires FILES to compare the answers with. Name files of pairs.")
    if not files and work.workers:
        raise BadValue("--workers requires FILES, whose pairs the workers share. Name files of pairs.")
    with together(work) as ranks:
        held = ranks.agreed(lambda: loaded(memory, vocabulary))
        outcome = asked_for(held, files, reading, joint, ranks) if files else None
    found = own_holdings(held, joint) if not files and held.keeps_paths else None
    if as_json:
        facts = dict(file=str(memory), whole=True, pairs=held.pairs) | journal_facts(memory)
        write_json(facts | verification_json(outcome, wrong) | holdings_json(found))
    else:
        write_verification(memory, held, outcome, wrong)
        write_holdings(found)
    raise typer.Exit(0 if outcome is None or outcome else 1)


def asked_for(
    memory: Memory | QuantizedMemory, files: list[str], reading: Reading, joint: bool, ranks: Ranks
) -> Verification:
    """How much of files a memory answers."""
    pairs = ranks.agreed(lambda: list(Files.open(files, reading)))
    if ranks.size > 1:
        memory = memory.distributed(ranks)
    with bar(errors, "querying", len(pairs)) as advance:
        return memory.verify((pair for pair in pairs), joint=joint, on_progress=advance)


def own_holdings(memory: Memory | QuantizedMemory, joint: bool) -> DecodedPairs:
    """What a memory holds under the paths that it keeps."""
    with bar(errors, "querying", memory.pairs) as advance:
        return memory.decode_pairs(joint=joint or None, on_progress=advance)


def verification_json(outcome: Verification | None, wrong: bool) -> dict[str, object]:
    """A verification, if there was any, for JSON."""
    if outcome is None:
        return {}
    facts: dict[str, object] = dict(total=outcome.total, correct=outcome.correct, accuracy=outcome.accuracy)
    if outcome.rounds is not None:
        facts |= dict(converged=outcome.converged, rounds=outcome.rounds)
    if wrong:
        facts["wrong"] = [wrong_json(each) for each in outcome.wrong]
    return facts


def wrong_json(wrong: Wrong) -> dict[str, object]:
    """A wrong answer for JSON."""
    answer = None if wrong.answer is None else answer_json(wrong.answer)
    return dict(path=list(map(value_json, wrong.path)), value=value_json(wrong.value), answer=answer)


def write_verification(
    file: FilePath, memory: Memory | QuantizedMemory, outcome: Verification | None, wrong: bool
) -> None:
    """A verification for people."""
    write_line(
        f"{file} is intact: {count_text(memory.pairs, 'pair')}, {count_text(len(memory.vocabulary), 'distinct value')}."
    )
    for sentence in journal_sentences(file):
        write_line(sentence)
    if outcome is None:
        return
    write_line(f"Correct: {outcome.correct:,} of {count_text(outcome.total, 'pair')} ({outcome.accuracy:.2%}).")
    if outcome.converged is False:
        write_line(
            "Joint decoding did not converge: the memory is over capacity, or holds many pairs that FILES do not."
        )
    if wrong:
        write_limited([wrong_sentence(each) for each in outcome.wrong], WORST, "(all with --json)")


def wrong_sentence(wrong: Wrong) -> str:
    """A wrong answer for people."""
    answer = answer_sentence(wrong.answer) if wrong.answer is not None else "no value"
    return f"{path_text(wrong.path)} -> {value_text(wrong.value)}; answer: {answer}"
