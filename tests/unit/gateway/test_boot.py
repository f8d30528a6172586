"""A plugin as the browser's loader takes it."""

from services.gateway.http.boot import loadable
from services.gateway.plugins.manifest import Manifest
from services.gateway.plugins.registry import ActivePlugin


def plugin(**declared: object) -> ActivePlugin:
    """An active plugin of this manifest."""
    manifest = Manifest.model_validate({"id": "p", "version": "1.2.3", "ui": {"bundle": "/ui/b.js"}, **declared})
    return ActivePlugin(id="p", version="1.2.3", generation=1, package_hash="0123456789abcdef" * 4, manifest=manifest)


def test_the_least_that_a_plugin_says() -> None:
    told = loadable(plugin()).model_dump(by_alias=True, exclude_none=True)
    assert told == {"id": "p", "name": "p", "bundleUrl": "/api/plugins/p/bundle?v=1.2.3-0123456789ab"}


def test_everything_that_a_plugin_can_say() -> None:
    ui = {"bundle": "/ui/b.js", "styles": ["/ui/a.css", "/ui/deep/b.css"]}
    told = loadable(plugin(display_name="The P", ui=ui, repository_providers=["git"])).model_dump(by_alias=True)
    assert told == {
        "id": "p",
        "name": "The P",
        "bundleUrl": "/api/plugins/p/bundle?v=1.2.3-0123456789ab",
        "styleUrls": (
            "/api/plugins/p/ui/ui/a.css?v=1.2.3-0123456789ab",
            "/api/plugins/p/ui/ui/deep/b.css?v=1.2.3-0123456789ab",
        ),
        "repositoryProviderIds": ("git",),
    }
