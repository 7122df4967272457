"""What a head is trained for: cosines to the sum of a point's labels, as published, and losses over label scores.

u is what the role "present" shows of a network's output, w what "missing" shows; `wanted` is the sum of the codes of a
point's labels, `others` the sum of all other codes. Every loss is a mean over the points.
"""

from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax, softplus

from carving.labels.rows import Rows

EPS = 1e-8  # below this a norm counts as zero


def carved(u: Tensor, wanted: Tensor, w: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """OSC: towards the present labels; what is missing must not point to the other labels."""
    loss = (1 - cosine_similarity(u, wanted, dim=-1, eps=EPS)).mean()
    if w is not None and others is not None:
        loss = loss + cosine_similarity(w, others, dim=-1, eps=EPS).clamp_min(0).mean()
    return loss


def absolute(u: Tensor, wanted: Tensor, w: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """MAP, VTB and HRR: the same with absolute cosines."""
    loss = (1 - cosine_similarity(u, wanted, dim=-1, eps=EPS).abs()).mean()
    if w is not None and others is not None:
        loss = loss + cosine_similarity(w, others, dim=-1, eps=EPS).abs().mean()
    return loss


def corrected(
    u: Tensor, wanted: Tensor, w: Tensor | None, others: Tensor | None, outputs: Tensor, scale: float
) -> Tensor:
    """HLB: cosines times the root of how many items the output seems to bundle, cut to [0, 1]."""
    energy = outputs.detach().square().sum(-1) / (scale**4 * outputs.shape[-1])
    root = energy.clamp_min(1).sqrt()
    loss = (1 - (root * cosine_similarity(u, wanted, dim=-1, eps=EPS)).clamp(0, 1)).mean()
    if w is not None and others is not None:
        loss = loss + (root * cosine_similarity(w, others, dim=-1, eps=EPS)).clamp(0, 1).mean()
    return loss


def each(u: Tensor, w: Tensor | None, codes: Tensor, sets: Rows) -> Tensor:
    """Ganesan et al.: every present label on its own, and none of them in what is missing."""
    loss = (1 - cosine_similarity(u[sets.owners], codes, dim=-1, eps=EPS).abs()).sum()
    if w is not None:
        loss = loss + cosine_similarity(w[sets.owners], codes, dim=-1, eps=EPS).abs().sum()
    return loss / max(1, len(sets))


def softmax(scores: Tensor, sets: Rows) -> Tensor:
    """Scores (n, L) as logits of one label drawn from the point's labels: cross entropy."""
    return _by_point(-log_softmax(scores, dim=1), sets)


def binary(scores: Tensor, sets: Rows) -> Tensor:
    """Scores as logits of each label being present, on its own, relative to how many labels a point has."""
    wrong = softplus(scores).sum(1)
    right = scores.new_zeros(len(sets)).index_add(0, sets.owners, scores[sets.owners, sets.columns])
    return (wrong - right).sum() / max(1, len(sets.columns))


def _by_point(losses: Tensor, sets: Rows) -> Tensor:
    """The losses (n, L) of a point's labels averaged, then the points; points without labels do not count."""
    share = 1 / sets.counts.clamp_min(1).to(losses.dtype)
    labelled = int((sets.counts > 0).sum())
    return (losses[sets.owners, sets.columns] * share[sets.owners]).sum() / max(1, labelled)
