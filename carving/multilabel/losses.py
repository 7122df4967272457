"""Losses of label heads: cosines to the sum of a point's labels, as published, and losses over label scores.

`u` (n, core) is what the role "present" reads from the outputs of a network, `w` what "missing" reads. `wanted` is the
sum of the codes of a point's labels, `others` the sum of all other codes, (n, core) each. Every loss is a mean over
points.
"""

from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax, softplus

from carving.multilabel.rows import Rows

EPS = 1e-8  # below this a norm counts as zero


def carved(u: Tensor, wanted: Tensor, w: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """Return the loss of OSC: 1 - cos(u, wanted), plus the positive part of cos(w, others)."""
    loss = (1 - cosine_similarity(u, wanted, dim=-1, eps=EPS)).mean()
    if w is not None and others is not None:
        loss = loss + cosine_similarity(w, others, dim=-1, eps=EPS).clamp_min(0).mean()
    return loss


def absolute(u: Tensor, wanted: Tensor, w: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """Return the loss of MAP, VTB and HRR: 1 - |cos(u, wanted)|, plus |cos(w, others)|."""
    loss = (1 - cosine_similarity(u, wanted, dim=-1, eps=EPS).abs()).mean()
    if w is not None and others is not None:
        loss = loss + cosine_similarity(w, others, dim=-1, eps=EPS).abs().mean()
    return loss


def corrected(
    u: Tensor, wanted: Tensor, w: Tensor | None, others: Tensor | None, outputs: Tensor, scale: float
) -> Tensor:
    """Return the loss of HLB: cosines times the root of the estimated number of bundled items, clipped to [0, 1]."""
    energy = outputs.detach().square().sum(-1) / (scale**4 * outputs.shape[-1])
    root = energy.clamp_min(1).sqrt()
    loss = (1 - (root * cosine_similarity(u, wanted, dim=-1, eps=EPS)).clamp(0, 1)).mean()
    if w is not None and others is not None:
        loss = loss + (root * cosine_similarity(w, others, dim=-1, eps=EPS)).clamp(0, 1).mean()
    return loss


def each(u: Tensor, w: Tensor | None, codes: Tensor, sets: Rows) -> Tensor:
    """Return the loss of Ganesan et al.: 1 - |cos(u, code)| for each label, plus |cos(w, code)|, summed over labels."""
    loss = (1 - cosine_similarity(u[sets.owners], codes, dim=-1, eps=EPS).abs()).sum()
    if w is not None:
        loss = loss + cosine_similarity(w[sets.owners], codes, dim=-1, eps=EPS).abs().sum()
    return loss / max(1, len(sets))


def softmax(scores: Tensor, sets: Rows) -> Tensor:
    """Return the cross entropy of scores (n, L) as logits, averaged over labels, then over labeled points."""
    return _by_point(-log_softmax(scores, dim=1), sets)


def binary(scores: Tensor, sets: Rows) -> Tensor:
    """Return the binary cross entropy of scores (n, L) as logits, divided by the number of labels of all points."""
    wrong = softplus(scores).sum(1)
    right = scores.new_zeros(len(sets)).index_add(0, sets.owners, scores[sets.owners, sets.columns])
    return (wrong - right).sum() / max(1, len(sets.columns))


def _by_point(losses: Tensor, sets: Rows) -> Tensor:
    """The losses (n, L) of a point's labels averaged, then the points; points without labels do not count."""
    share = 1 / sets.counts.clamp_min(1).to(losses.dtype)
    labeled = int((sets.counts > 0).sum())
    return (losses[sets.owners, sets.columns] * share[sets.owners]).sum() / max(1, labeled)
