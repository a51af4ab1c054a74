"""What follows from the description of an app: its image, its config, its manifest.

The order is part of the contract, since it decides which refusal a caller sees. Everything is done
before a transaction begins, fetches too."""

import asyncio

from google.protobuf.json_format import MessageToDict

from api.edge import convert, texts
from api.edge.text_reader import TextReader
from domain import app as apps
from domain import manifest
from domain.app import App, Deployment, Service
from domain.fetching import is_url
from domain.ports import Documents
from domain.refusal import Refusal, refuse_if
from domain.yaml_limits import BYTES
from protos.gen.edge import app_pb2


class Drafting:
    def __init__(self, documents: Documents, reader: TextReader, image_host: str) -> None:
        self._documents, self._reader = documents, reader
        self._image_host = image_host

    async def complete(
        self, message: app_pb2.App, before: App | None = None
    ) -> tuple[Service, ...]:
        """Write into an app all that follows from its description, and tell the services of its
        manifest. `before` is what it was, if it is being changed."""
        app = convert.app(message)
        apps.check_ports(app)
        key = app.auth_public_key
        refuse_if(key and not texts.is_public_key(key), Refusal.APP_PUBLIC_KEY)
        app = apps.with_deployment(app)
        app = apps.with_image(app, self._image_host)
        app = await self._with_config(app)
        if before is not None:
            app = apps.without_stale_generator(app, before)
        app = await self._with_manifest(apps.with_generator(app), message)
        apps.check_manifest(app)
        convert.write_app(message, app)
        if app.deployment != Deployment.KUBERNETES:
            return ()
        return await self._reader.services(app.manifest)

    async def _with_config(self, app: App) -> App:
        """Its config, fetched if need be. What was fetched once is kept and not fetched again."""
        if not app.config:
            return app
        config = await self._text(app.config)
        most = texts.LONGEST_CONFIG
        refuse_if(len(config) > most, Refusal.APP_TEXT_TOO_LONG, field="config", most=most)
        readable = await self._reader.is_config(config)
        refuse_if(not readable, Refusal.APP_CONFIG)
        return app.model_copy(update={"config": config})

    async def _with_manifest(self, app: App, message: app_pb2.App) -> App:
        text = await (self._generated(app, message) if app.generator else self._text(app.manifest))
        most = BYTES
        refuse_if(len(text) > most, Refusal.APP_TEXT_TOO_LONG, field="manifest", most=most)
        return app.model_copy(update={"manifest": text})

    async def _generated(self, app: App, message: app_pb2.App) -> str:
        if app.generator == apps.KUBERNETES_BASIC:
            return await asyncio.to_thread(texts.as_yaml, manifest.documents(app))
        refuse_if(not is_url(app.generator), Refusal.APP_GENERATOR, name=app.generator)
        described = app_pb2.App()
        described.CopyFrom(message)
        convert.write_app(described, app)
        plain = MessageToDict(described, preserving_proto_field_name=True)
        return await self._documents.generate(app.generator, plain)

    async def _text(self, text: str) -> str:
        return await self._documents.fetch(text) if is_url(text) else text
