"""Which model and GPU an experiment has measured, and whether they are the asked ones."""

from collections.abc import Collection
from pathlib import PurePath

from traceql.errors import TraceqlError, UnknownGpu, UnknownModel
from traceql.plan.advise.measured import Results
from traceql.plan.advise.models import Model, built_in_model


def only_model(results: Results) -> Model:
    """The model of all points.

    Raises:
        UnknownModel: there are several, or its sizes are not known.
    """
    names = sorted({point.model for point in results.points})
    if len(names) > 1:
        raise UnknownModel(
            f"{results.name} has results of {', '.join(names)}; name one with --model"
        )
    found = built_in_model(names[0])
    if found is None:
        raise UnknownModel(
            f"{results.name} has results of {names[0]}, whose sizes are not known; give its "
            "config.json with --model"
        )
    return found


def only_gpu(results: Results) -> str:
    """The GPU of all points.

    Raises:
        UnknownGpu: there are several, or none is named.
    """
    names = sorted({point.gpu for point in results.points if point.gpu})
    if not names:
        raise UnknownGpu(f"{results.name} does not say what GPU was measured; give --gpu")
    if len(names) > 1:
        raise UnknownGpu(f"{results.name} has results of {', '.join(names)}; name one with --gpu")
    return names[0]


def require_subject(results: Results, model: Model, gpu: str) -> None:
    """Checks that some point is of this model, and some of this GPU.

    Raises:
        TraceqlError: none is; the message says of which they are.
    """
    models = sorted({point.model for point in results.points})
    if not any(is_named(model, name) for name in models):
        raise _other(results.name, models, model.name)
    gpus = sorted({point.gpu for point in results.points if point.gpu})
    if gpus and gpu not in gpus:
        raise _other(results.name, gpus, gpu)


def is_named(model: Model, name: str) -> bool:
    """Whether results with this name of a model, without folders, are of the model."""
    path = PurePath(model.name)
    own = path.parent.name if path.name == "config.json" else path.name
    if own.lower() == name.lower():
        return True
    known = built_in_model(name)
    return known is not None and (known.sizes, known.formats) == (model.sizes, model.formats)


def _other(source: str, names: Collection[str], asked: str) -> TraceqlError:
    return TraceqlError(
        f"{source} has results of {', '.join(names)}, not of {asked}; leave --results out, or ask "
        "for what it has"
    )
