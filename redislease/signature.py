"""What a handler takes: whether it wants the lease, and how its payload and result are read."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required

from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from redislease import encoding
from redislease.async_lease import AsyncLease
from redislease.errors import ConfigurationError, PayloadInvalid
from redislease.lease import Lease


class UnknownParameter(PayloadInvalid):
    """The payload has a parameter that this version of the handler does not know: a newer producer wrote it."""


class Signature:
    """The parameters of a handler.

    The payload is one JSON object, keyed by parameter name and read strictly: `"7"` is no integer.

    Args:
        function: The handler. The lease, if it takes one, is its first positional parameter, annotated `Lease` for a
            `def` and `AsyncLease` for an `async def`.

    Raises:
        ConfigurationError: The signature cannot be served.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__qualname__", repr(function))
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function)
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except NameError as problem:
            raise ConfigurationError(f"{self.name}: {problem}; annotations must be importable at run time") from problem
        parameters = list(self._signature.parameters.values())
        self.takes_lease = bool(parameters) and self._is_lease(parameters[0], hints)
        if self.takes_lease:
            parameters = parameters[1:]
        self._signature = self._signature.replace(parameters=parameters)
        self._positional = [one for one in parameters if one.kind is inspect.Parameter.POSITIONAL_ONLY]
        self._adapter = self._read_with(parameters, hints)
        self._hints = hints
        self._returns: TypeAdapter[Any] | None = None

    def _is_lease(self, first: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
        kind = hints.get(first.name)
        if kind not in (Lease, AsyncLease):
            return False
        expected = AsyncLease if self.is_async else Lease
        if kind is not expected:
            raise ConfigurationError(f"{self.name}: its lease must be annotated {expected.__name__}")
        if first.kind is inspect.Parameter.KEYWORD_ONLY:
            raise ConfigurationError(f"{self.name}: the lease must be the first positional parameter")
        return True

    def _read_with(self, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
        fields: dict[str, Any] = {}
        for one in parameters:
            if one.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                raise ConfigurationError(f"{self.name}: {one} cannot be stored by name")
            if hints.get(one.name) in (Lease, AsyncLease):
                raise ConfigurationError(f"{self.name}: the lease must be the first positional parameter")
            kind = hints.get(one.name, Any)
            # A parameter with a default may be missing; the function itself fills it in.
            fields[one.name] = Required[kind] if one.default is inspect.Parameter.empty else NotRequired[kind]
        make: Any = TypedDict
        shape = make(f"{self.name} payload", fields)
        shape.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=False)
        try:
            return TypeAdapter(shape)
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as problem:
            raise ConfigurationError(f"{self.name}: a parameter has a type that cannot be read: {problem}") from problem

    def payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The payload of a call of the handler.

        Raises:
            PayloadInvalid: The arguments do not fit the handler.
        """
        try:
            arguments = dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as problem:
            raise PayloadInvalid(f"{self.name}: {problem}") from problem
        self.arguments(encoding.payload_to_json(arguments))
        return arguments

    def arguments(self, payload: bytes) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call from a stored payload.

        Raises:
            UnknownParameter: It names a parameter that the handler does not have.
            PayloadInvalid: It does not fit the handler.
        """
        try:
            named = self._adapter.validate_json(payload or b"{}", strict=True)
        except ValidationError as problem:
            errors = problem.errors(include_url=False, include_input=False)
            text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors[:5])
            unknown = all(one["type"] == "extra_forbidden" and len(one["loc"]) == 1 for one in errors)
            raise (UnknownParameter if unknown else PayloadInvalid)(f"{self.name}: {text}") from problem
        if not self._positional:
            return [], named
        positional = []
        for parameter in self._positional:
            # Behind one that is missing the function's own defaults stand, as in any call.
            positional.append(named.pop(parameter.name, parameter.default))
        return positional, named

    def result(self, stored: bytes) -> Any:
        """A stored result as the type that the handler says it returns.

        Raises:
            ConfigurationError: The type cannot be read from JSON.
            PayloadInvalid: The stored result does not fit it.
        """
        if self._returns is None:
            kind = self._hints.get("return", Any)
            try:
                self._returns = TypeAdapter(kind)
            except (PydanticSchemaGenerationError, PydanticUserError) as problem:
                raise ConfigurationError(f"{self.name}: its result cannot be read as {kind}") from problem
        try:
            return self._returns.validate_json(stored or b"null", strict=True)
        except ValidationError as problem:
            raise PayloadInvalid(
                f"{self.name}: the stored result does not fit: {problem.error_count()} errors"
            ) from problem
