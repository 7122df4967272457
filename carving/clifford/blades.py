"""Blades and multivectors of single grades: geometric algebra of large spaces, one grade at a time.

A blade is the wedge of r vectors of R^n. `Blades` stores these vectors, r n numbers. `Multivectors` stores the
binom(n, r) coordinates of one grade, in the order of combinations. A plain tensor (*, n) is a batch of vectors.
`total` gives the coordinates of a sum of blades. Leading dimensions broadcast, every operation is differentiable, and
no tensor of size 2^n or n^r is created.

In coordinates a contraction is a product with an unfolded multivector and a wedge a folded outer product (`grades.py`).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from carving.clifford.elements import Blades, E, Element, Multivectors, as_element, common_space, show_shape
from carving.clifford.grades import check_headroom, contract_rows, count, fold, subsets, unfold, wedge_rows
from carving.errors import BadValue
from carving.tiling import rows_within, slices

WORKSPACE = 64 * 2**20  # bytes that a product may use at a time beside its arguments and its result


# Products


def wedge(*parts: Element) -> Blades | Multivectors:
    """Return the outer (wedge) product of vectors, blades or multivectors.

    The result is `Blades` if all parts are vectors or blades, else `Multivectors`.

    Raises:
        ValueError: The grades add up to more than n, or there are no parts.

    >>> wedge(torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0])).grade
    2
    """
    if not parts:
        raise BadValue("wedge needs at least one factor, got none. Pass vectors, blades or multivectors.")
    elements = [as_element(part) for part in parts]
    n, grade = common_space(*elements), sum(element.grade for element in elements)
    if grade > n:
        raise BadValue(f"A wedge of grade {grade} in R^{n} is always zero. Pass fewer factors.")
    blades = [element for element in elements if isinstance(element, Blades)]
    if len(blades) == len(elements):
        batch = torch.broadcast_shapes(*(blade.batch for blade in blades))
        return Blades(torch.cat([blade.factors.expand(*batch, -1, -1) for blade in blades], dim=-2))
    product, *rest = map(expand, elements)
    for factor in rest:
        s, t = product.grade, factor.grade
        product = Multivectors(_wedge(product.coordinates, factor.coordinates, n, s, t), n, s + t)
    return product


def contract(a: Element, b: Element) -> Blades | Multivectors:
    """Return the left contraction of a onto b.

    (a1 ^ a2) contracted onto b is a1 contracted onto (a2 contracted onto b). Two blades give a blade; two elements of
    equal grade give a scalar, a multivector of grade 0. Where the contraction of blades is zero, only the form in
    coordinates has a gradient.

    Raises:
        ValueError: The grade of a exceeds the grade of b.

    >>> e = torch.eye(3)
    >>> expand(contract(e[0], wedge(e[0], e[1]))).coordinates
    tensor([0., 1., 0.])
    """
    a, b = as_element(a), as_element(b)
    n, s, r = common_space(a, b), a.grade, b.grade
    if s > r:
        raise BadValue(
            f"The left contraction of grade {s} onto grade {r} is always zero. "
            "Pass the smaller grade first: contract(smaller, larger)."
        )
    if isinstance(a, Blades) and isinstance(b, Blades):
        if s == r:
            return Multivectors(reversal(s) * inner(a, b).unsqueeze(-1), n, 0)
        factors = b.factors
        for vector in reversed(a.factors.unbind(-2)):
            factors = _without(factors, vector)
        return Blades(factors)
    rest = expand(b).coordinates
    if isinstance(a, Blades):
        for done, vector in enumerate(reversed(a.factors.unbind(-2))):
            rest = _contract(vector, rest, n, 1, r - 1 - done)
        return Multivectors(rest, n, r - s)
    return Multivectors(reversal(s) * _contract(a.coordinates, rest, n, s, r - s), n, r - s)


def contract_sum(a: Blades, terms: Blades) -> Tensor:
    """Return the left contraction of blades onto a sum of blades, without computing coordinates.

    Args:
        a: Blades (*, r, n).
        terms: N blades (N, r + 1, n), the terms of the sum.

    Returns:
        Vectors (*, n).

    >>> e = torch.eye(3)
    >>> contract_sum(Blades(e[:1]), Blades(e[None, :2]))
    tensor([0., 1., 0.])
    """
    common_space(a, terms, broadcast=False)
    s, size = a.grade, len(terms.factors)
    if len(terms.batch) != 1 or terms.grade != s + 1:
        raise BadValue(
            f"terms must have shape (N, {s + 1}, {a.n}) for blades of grade {s}, got {show_shape(terms.factors)}. "
            "Use contract(a, total(terms)) for other grades."
        )
    queries = a.factors.reshape(-1, s, a.n)
    vectors = queries.new_zeros(len(queries), a.n)
    columns = [[c for c in range(s + 1) if c != k] for k in range(s + 1)]
    for rows in slices(size, rows_within(WORKSPACE, len(queries) * (s + 1) ** 3 * queries.element_size())):
        part = terms.factors[rows]
        dots = torch.einsum("qsn,jkn->qjsk", queries, part)
        survive = [(-1) ** (s - k) * determinant(dots[..., rest]) for k, rest in enumerate(columns)]  # Laplace
        vectors = vectors + torch.stack(survive, dim=-1).flatten(1) @ part.flatten(0, 1)
    return (reversal(s) * vectors).view(*a.batch, a.n)


def inner(a: Element, b: Element) -> Tensor:
    """Return the inner products (*) of elements of equal grade.

    For two blades it is the determinant of the inner products of their vectors; no coordinates are computed.

    >>> e = torch.eye(3)
    >>> inner(wedge(e[0], e[1]), wedge(e[0], e[1]))
    tensor(1.)
    """
    a, b = as_element(a), as_element(b)
    common_space(a, b)
    if a.grade != b.grade:
        raise BadValue(
            f"Elements of different grades are always orthogonal, got grades {a.grade} and {b.grade}. "
            "Use contract(smaller, larger) for the left contraction."
        )
    if isinstance(a, Blades) and isinstance(b, Blades):
        return determinant(a.factors @ b.factors.mT)
    if isinstance(a, Multivectors) and isinstance(b, Multivectors):
        return (a.coordinates * b.coordinates).sum(-1)
    if isinstance(a, Multivectors):
        a, b = b, a  # the one that is blades first
    assert isinstance(a, Blades)
    return expand(contract(reverse(a), b)).coordinates.squeeze(-1)


def norm(a: Element) -> Tensor:
    """Return the norms (*); the norm of a blade is the volume that its vectors span.

    >>> norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    a = as_element(a)
    if isinstance(a, Multivectors):
        return torch.linalg.vector_norm(a.coordinates, dim=-1)
    return inner(a, a).clamp_min(0).sqrt()


def reversal(grade: int) -> int:
    """Return the sign of reversing the order of `grade` factors."""
    return -1 if grade % 4 in (2, 3) else 1


def reverse(a: E) -> E:
    """Return the reverse: the vectors wedged in the opposite order.

    >>> e = torch.eye(3)
    >>> inner(reverse(wedge(e[0], e[1])), wedge(e[0], e[1]))
    tensor(-1.)
    """
    if isinstance(a, Blades):
        return Blades(a.factors.flip(-2))
    if isinstance(a, Multivectors):
        return Multivectors(reversal(a.grade) * a.coordinates, a.n, a.grade)
    as_element(a)
    return a


def inverse(a: E) -> E:
    """Return the inverse of a blade, its reverse divided by its squared norm.

    Raises:
        ValueError: The blade is zero, or the multivector is not a blade.

    >>> inverse(torch.tensor([0.0, 2.0]))
    tensor([0.0000, 0.5000])
    """
    if isinstance(a, Blades):
        _directions(a)
        # Vectors of length 1 first, so that the volume of short or long ones is a number still.
        lengths = torch.linalg.vector_norm(a.factors, dim=-1, keepdim=True).flip(-2)
        units = a.factors.flip(-2) / lengths
        volume = determinant(units @ units.mT)[..., None, None]  # squared
        first, rest = units.split((1, a.grade - 1), dim=-2)
        return Blades(torch.cat([first / volume, rest], dim=-2) / lengths)
    if isinstance(a, Multivectors):
        if a.grade:
            factor(a)  # refuses what is no blade
        elif not bool(a.coordinates.all()):
            raise BadValue("Zero has no inverse, got a scalar that is zero. Leave it out.")
        turned = reverse(a)
        return Multivectors(turned.coordinates / a.coordinates.square().sum(-1, keepdim=True), a.n, a.grade)
    _directions(_simple(a))
    return a / a.square().sum(-1, keepdim=True)


def project(a: E, by: Element) -> E:
    """Return the projection of vectors, blades or multivectors onto the subspace of a blade.

    A blade is projected vector by vector. The formula is (a contracted onto A) A^-1.

    >>> e = torch.eye(3)
    >>> project(torch.tensor([1.0, 2.0, 3.0]), wedge(e[0], e[1]))
    tensor([1., 2., 0.])
    """
    blade, element = _simple(by), as_element(a)
    common_space(element, blade)
    if element.grade > blade.grade:
        raise BadValue(
            f"An element of grade {element.grade} cannot lie in a blade of grade {blade.grade}. Pass a larger blade."
        )
    if isinstance(a, Multivectors):
        return expand(contract(contract(a, expand(blade)), inverse(expand(blade))))
    directions = _directions(blade)  # (*, r, n), orthonormal
    if isinstance(a, Blades):
        return Blades(a.factors @ directions.mT @ directions)
    return (a.unsqueeze(-2) @ directions.mT @ directions).squeeze(-2)


def reject(a: E, by: Element) -> E:
    """Return the rejection: the part orthogonal to the subspace of a blade.

    For a vector it is a - project(a, by); a blade is rejected vector by vector. This is the carving operator of OSC.

    >>> e = torch.eye(3)
    >>> reject(torch.tensor([1.0, 2.0, 3.0]), wedge(e[0], e[1]))
    tensor([0., 0., 3.])
    """
    if isinstance(a, Multivectors):
        blade = expand(_simple(by))
        # (a ^ A) A^-1: what a has inside A dies in the wedge. A right contraction is a reversed left one.
        both, undo = expand(wedge(a, blade)), reverse(inverse(blade))
        return reverse(expand(contract(undo, reverse(both))))
    blade, element = _simple(by), as_element(a)
    n, grade = common_space(element, blade), element.grade + blade.grade
    if grade > n:
        raise BadValue(
            f"No element of grade {element.grade} in R^{n} is orthogonal to a blade of grade {blade.grade}. "
            "Pass a smaller blade."
        )
    directions = _directions(blade)
    if isinstance(a, Blades):
        return Blades(a.factors - a.factors @ directions.mT @ directions)
    return a - (a.unsqueeze(-2) @ directions.mT @ directions).squeeze(-2)


# Coordinates


def expand(a: Element) -> Multivectors:
    """Return blades in coordinates: all r x r minors of their vectors.

    >>> e = torch.eye(3)
    >>> expand(wedge(e[0], e[2])).coordinates
    tensor([0., 1., 0.])
    """
    a = as_element(a)
    if isinstance(a, Multivectors):
        return a
    first, *rest = a.factors.unbind(-2)
    check_headroom(a.n, a.grade, a.factors)
    for grade, vector in enumerate(rest, start=1):
        first = _wedge(first, vector, a.n, grade, 1)
    return Multivectors(first, a.n, a.grade)


def total(blades: Blades, weights: Tensor | None = None) -> Multivectors:
    """Return the weighted sum of blades, in coordinates (*, binom(n, r)).

    The sum is one matrix product; the coordinates of the single blades are not stored.

    Args:
        blades: (*, N, r, n).
        weights: (*, N), 1 if None.

    >>> e = torch.eye(3)
    >>> total(Blades(torch.stack([e[:2], e[1:]]))).coordinates
    tensor([1., 0., 1.])
    """
    if not blades.batch:
        raise BadValue(
            f"blades must have shape (*, N, r, n), got {show_shape(blades.factors)}. Use expand(blade) for one blade."
        )
    if weights is not None and weights.shape != blades.batch:
        raise BadValue(f"weights must have shape {tuple(blades.batch)}, one for each blade, got {show_shape(weights)}")
    if not blades.batch[-1]:
        raise BadValue("blades must not be empty. Pass at least one.")
    n, grade, half = blades.n, blades.grade, (blades.grade + 1) // 2
    if grade == 1:
        vectors = blades.factors.squeeze(-2)
        return Multivectors((vectors if weights is None else vectors * weights.unsqueeze(-1)).sum(-2), n, 1)
    check_headroom(n, grade, blades.factors)
    matrix: Tensor | None = None
    each = (count(n, half) + count(n, grade - half)) * blades.batch[:-1].numel() * blades.factors.element_size()
    for rows in slices(blades.batch[-1], rows_within(WORKSPACE, each)):
        part = blades.factors[..., rows, :, :]
        left = expand(Blades(part[..., :half, :])).coordinates
        right = expand(Blades(part[..., half:, :])).coordinates
        left = left if weights is None else left * weights[..., rows, None]
        matrix = left.mT @ right if matrix is None else matrix + left.mT @ right
    assert matrix is not None
    return Multivectors(fold(matrix, n, half, grade - half), n, grade)


def factor(a: Multivectors) -> Blades:
    """Return a blade in coordinates as a wedge of vectors.

    Raises:
        ValueError: The multivector is zero, a scalar, or a sum that is not a single blade.

    >>> factor(Multivectors(torch.tensor([0.0, 2.0, 0.0]), n=3, grade=2)).factors.shape
    torch.Size([2, 3])
    """
    if not a.grade:
        raise BadValue("A scalar has no factors. Pass an element of grade 1 or more.")
    flat, n, grade = a.coordinates.reshape(-1, a.coordinates.shape[-1]), a.n, a.grade
    scale, largest = flat.abs().max(dim=-1)
    if not bool((scale > 0).all()):
        raise BadValue("The zero blade has no factors. Leave out multivectors whose coordinates are all zero.")
    main = torch.from_numpy(subsets(n, grade)).to(flat.device)[largest]  # (b, r), where the largest coordinate stands
    pivot, batch = flat.gather(1, largest.unsqueeze(1)), torch.arange(len(flat), device=flat.device)
    vectors = []
    for k in range(grade):  # take all others of the largest coordinate's directions out, as Pluecker did
        vector = flat
        for done, other in enumerate([c for c in range(grade) if c != k]):
            vector = unfold(vector, n, 1, grade - 1 - done)[batch, main[:, other]]
        vectors.append((-1) ** (grade - 1 - k) * vector / (pivot if k else 1))
    blades = Blades(torch.stack(vectors, dim=-2))
    off = (expand(blades).coordinates - flat).abs().amax(-1)
    if bool((off > 100 * grade * torch.finfo(flat.dtype).eps ** 0.75 * scale).any()):
        raise BadValue(
            f"The coordinates of grade {grade} belong to a sum of blades, not to a single blade. "
            "Only single blades have factors and inverses."
        )
    return Blades(blades.factors.view(*a.batch, grade, n))


def determinant(matrix: Tensor) -> Tensor:
    """Determinants (*) of matrices (*, r, r); small ones written out, which is faster and differentiates everywhere."""
    match matrix.shape[-1]:
        case 1:
            return matrix[..., 0, 0]
        case 2:
            return matrix[..., 0, 0] * matrix[..., 1, 1] - matrix[..., 0, 1] * matrix[..., 1, 0]
        case 3:
            return (matrix[..., 0, :] * torch.linalg.cross(matrix[..., 1, :], matrix[..., 2, :])).sum(-1)
    values: Tensor = torch.linalg.det(matrix)
    return values


def _wedge(a: Tensor, b: Tensor, n: int, s: int, t: int) -> Tensor:
    check_headroom(n, s + t, a)
    return _batched(lambda a, b: wedge_rows(a, b, n, s, t), a, b, 3 * count(n, s + t))


def _contract(a: Tensor, b: Tensor, n: int, s: int, t: int) -> Tensor:
    """What `unfold` gives, without the sign of the reversal, which one vector has not."""
    if b.dim() == 1:  # one for all: a plain product
        return a @ unfold(b, n, s, t)
    if s == 1:
        return _batched(lambda a, b: contract_rows(a, b, n, t), a, b, 2 * count(n, t + 1) + 2 * count(n, t))
    size = 2 * count(n, s) * count(n, t)
    return _batched(lambda a, b: (a.mT.unsqueeze(-2) @ unfold(b.mT, n, s, t)).squeeze(-2).mT, a, b, size)


def _batched(how: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, numbers: int) -> Tensor:
    """Both broadcast and turned, a coordinate a row, as many columns at a time as the workspace holds.

    Rows of neighboring numbers are what a processor moves fast; the result is a view of such rows, turned back.
    """
    columns = max(1, WORKSPACE // (numbers * a.element_size()))
    if a.dim() == b.dim() == 2 and len(a) == len(b) <= columns:  # the usual case, for which every call counts
        return how(a.mT.contiguous(), b.mT.contiguous()).mT
    batch = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    flat = [element.expand(*batch, -1).reshape(-1, element.shape[-1]).split(columns) for element in (a, b)]
    parts = [how(*(part.mT.contiguous() for part in pair)) for pair in zip(*flat, strict=True)]
    product = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    return product.mT.unflatten(0, batch) if batch else product.squeeze(1)


def _without(factors: Tensor, vector: Tensor) -> Tensor:
    """A vector contracted onto a blade: a reflection of its vectors leaves only the first along it, which then goes."""
    dots = (factors @ vector.unsqueeze(-1)).squeeze(-1)  # (*, r)
    first = dots[..., :1]
    size = torch.linalg.vector_norm(dots, dim=-1, keepdim=True) * torch.where(first < 0, -1.0, 1.0).to(dots)
    mirror = torch.cat([first + size, dots[..., 1:]], dim=-1)
    length = mirror.square().sum(-1, keepdim=True)
    length = torch.where(length > 0, length, 1.0)
    along = mirror.unsqueeze(-2) @ factors / length.unsqueeze(-1)  # (*, 1, n)
    left = (factors - 2 * mirror.unsqueeze(-1) * along)[..., 1:, :]
    return torch.cat([left[..., :1, :] * size.unsqueeze(-1), left[..., 1:, :]], dim=-2)


def _directions(blades: Blades) -> Tensor:
    """Orthonormal vectors (*, r, n) that span the blades; vectors that depend on each other span none."""
    basis, upper = torch.linalg.qr(blades.factors.mT)
    if not torch.compiler.is_compiling():
        lengths = torch.linalg.vector_norm(blades.factors, dim=-1)
        own = upper.diagonal(dim1=-2, dim2=-1).abs()
        low = own <= blades.n * torch.finfo(own.dtype).eps * lengths
        if bool(low.any()):
            row = int(low.reshape(-1, blades.grade).any(0).nonzero()[0])
            raise BadValue(
                f"A zero blade has no inverse and spans no subspace: vector {row} of its {blades.grade} is zero or "
                "depends linearly on the vectors before it. Leave it out."
            )
    return basis.mT


def _simple(a: Element) -> Blades:
    """A blade, as its vectors."""
    a = as_element(a)
    return factor(a) if isinstance(a, Multivectors) else a
