"""How files become pipelines: defaults, several topics, templates, team files."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cli.demo.change_data import CDC_CONFIG, CHANGES, MIRROR
from spark_jobs.config.build import build_config, safe_name
from spark_jobs.config.expansion import contested, expand
from spark_jobs.config.file import DEMO_CONFIG, DEMO_FILE, load_config, parse_document, write_topics
from spark_jobs.config.quantities import StartKind
from spark_jobs.connections.connect import open_log
from spark_jobs.protocol.errors import ConfigError


def config_of(text):
    """The configuration of a main file that has no mistakes."""
    document, problems = parse_document("sluice.yaml", "version: 1\n" + text)
    built = build_config(document, (), home="/home/.sluice", folder="/home")
    assert [*problems, *built.problems] == []
    return built.config


def team_folder(tmp_path, **files):
    """A main file with pipeline a and an include of teams/, and the team files."""
    (tmp_path / "teams").mkdir()
    for name, text in files.items():
        (tmp_path / "teams" / f"{name}.yaml").write_text(text)
    main = tmp_path / "sluice.yaml"
    main.write_text(
        "version: 1\ninclude: teams/*.yaml\ndefaults: {freshness: 5m, table_properties: {a: 1, b: 1}}\n"
        "pipelines:\n  a: {topic: a, table: l.a}\n"
    )
    return main


@pytest.mark.parametrize(
    ("state", "opened_with"),
    [
        ("s3://bucket/log", {"type": "rest", "uri": "http://h", "s3.access-key-id": "lake"}),
        (
            "{uri: s3://bucket/log, s3.access-key-id: log, s3.region: x}",
            {"s3.access-key-id": "log", "s3.region": "x"},
        ),
        ("{uri: s3://bucket/log}", {}),
    ],
)
def test_the_log_has_credentials_of_its_own_or_the_lake_s(tmp_path, monkeypatch, state, opened_with):
    """As text it is opened with what opens the lake; as a map with that alone, be it nothing."""
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    main = tmp_path / "sluice.yaml"
    catalog = "{type: rest, uri: 'http://h', s3.access-key-id: lake}"
    main.write_text(f"version: 1\ncatalog: {catalog}\nstate: {state}\n")
    config = load_config(main)
    assert config.state == "s3://bucket/log"
    assert open_log(config).store._properties == opened_with


def test_without_a_file_the_demo_is_in_force(tmp_path, monkeypatch):
    """No file at all: embedded broker, SQLite and folder under ./.sluice, pipelines flights and weather."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICE_CONFIG", raising=False)
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    config = load_config()
    assert config.home == f"{tmp_path}/.sluice"
    assert config.state == f"{tmp_path}/.sluice/log"
    assert config.catalog.properties == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/.sluice/catalog.db",
        "warehouse": f"file://{tmp_path}/.sluice/lake",
    }
    assert [(p.topic, p.table) for p in config.pipelines] == [
        ("flights", "lake.flights"),
        ("weather", "lake.weather"),
    ]
    assert not config.has_broker


def test_without_a_file_the_tables_of_the_demo_that_ran_there_are_known(tmp_path, monkeypatch):
    """Commands typed after ``demo --cdc`` find its pipelines; a file of the user's own comes first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICE_CONFIG", raising=False)
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    (tmp_path / ".sluice").mkdir()
    (tmp_path / ".sluice" / DEMO_FILE).write_text(DEMO_CONFIG + CDC_CONFIG)
    config = load_config()
    assert [p.name for p in config.pipelines] == ["flights", "weather", MIRROR, CHANGES]
    assert (config.home, config.source) == (f"{tmp_path}/.sluice", None)
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    assert load_config().pipelines == ()


def test_a_named_file_must_exist(tmp_path, monkeypatch):
    """A path from --config or SLUICE_CONFIG is never answered with the defaults."""
    monkeypatch.setenv("SLUICE_CONFIG", str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError) as raised:
        load_config()
    assert raised.value.code == "no-config-file"


def test_a_text_in_the_environment_stands_for_the_file(tmp_path, monkeypatch):
    """It is read as a file is, references and all; a variable with a file beside it is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    text = "version: 1\nkafka: {sasl.password: '${SECRET}'}\npipelines: {a: {topic: a, table: l.a}}\n"
    monkeypatch.setenv("SLUICE_CONFIG_YAML", text)
    config = load_config()
    assert ([p.name for p in config.pipelines], config.kafka) == (["a"], {"sasl.password": "${SECRET}"})
    assert (config.home, config.source) == (f"{tmp_path}/.sluice", None)
    assert load_config(tmp_path / "sluice.yaml").pipelines == ()
    monkeypatch.setenv("SLUICE_CONFIG", str(tmp_path / "sluice.yaml"))
    with pytest.raises(ConfigError, match="are set"):
        load_config()


def test_the_state_folder_is_beside_the_file_unless_named(tmp_path, monkeypatch):
    """SLUICE_HOME wins; else .sluice beside the file, wherever the command runs."""
    main = tmp_path / "sluice.yaml"
    main.write_text("version: 1\nstate: log\n")
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    assert load_config(main).home == f"{tmp_path}/.sluice"
    assert load_config(main).state == f"{tmp_path}/log"
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "elsewhere"))
    assert load_config(main).home == f"{tmp_path}/elsewhere"


def test_defaults_reach_every_pipeline_and_maps_are_merged():
    """A pipeline's own setting wins; of two maps it gets both."""
    config = config_of(
        "defaults: {freshness: 5m, partition_by: day(at), table_properties: {a: 1, b: 1},"
        " columns: {at: timestamptz}}\n"
        "pipelines:\n"
        "  a: {topic: a, table: l.a}\n"
        "  b: {topic: b, table: l.b, freshness: 10s, partition_by: [], table_properties: {b: 2}}\n"
    )
    a, b = config.pipelines
    assert (a.freshness_seconds, a.partition_by, a.table_properties) == (
        300,
        ("day(at)",),
        {"a": "1", "b": "1"},
    )
    assert (b.freshness_seconds, b.partition_by, b.table_properties) == (10, (), {"a": "1", "b": "2"})
    assert a.declared == b.declared == {"at": "timestamptz"}
    assert a.dead_letter_table == "l.a_dead_letters"


def test_a_schedule_for_all_can_be_taken_back():
    """What `defaults` say of times is a pipeline's own to refuse; each zone is its own as well."""
    config = config_of(
        "defaults: {schedule: 0 2 * * *, timezone: Europe/Berlin, upkeep: {schedule: 0 4 * * 0}}\n"
        "pipelines:\n"
        "  a: {topic: a, table: l.a, upkeep: {compact_above: 5}}\n"
        "  b: {topic: b, table: l.b, schedule: off, upkeep: {schedule: off}}\n"
    )
    a, b = config.pipelines
    assert (a.schedule, a.timezone, a.upkeep.schedule) == ("0 2 * * *", "Europe/Berlin", "0 4 * * 0")
    assert (b.schedule, b.upkeep.schedule) == (None, None)


def test_starts_are_read_in_all_four_forms():
    """earliest, latest, a time (UTC without a zone), offsets by partition."""
    config = config_of(
        "pipelines:\n"
        "  a: {topic: a, table: l.a}\n"
        "  b: {topic: b, table: l.b, start: latest}\n"
        "  c: {topic: c, table: l.c, start: 2026-01-31T06:00:00}\n"
        "  d: {topic: d, table: l.d, start: {0: 100, 1: 250}}\n"
    )
    a, b, c, d = (p.start for p in config.pipelines)
    assert (a.kind, b.kind) == (StartKind.EARLIEST, StartKind.LATEST)
    assert c.timestamp_ms == datetime(2026, 1, 31, 6, tzinfo=UTC).timestamp() * 1000
    assert d.offsets == {0: 100, 1: 250}


def test_a_list_of_topics_is_a_pipeline_each():
    """Names and tables come from the topics made safe."""
    config = config_of(
        "pipelines:\n  web: {topics: [page.views, 2nd-clicks], table: 'web.{topic}', freshness: 10s}\n"
    )
    assert [(p.name, p.topic, p.table, p.freshness_seconds) for p in config.pipelines] == [
        ("page_views", "page.views", "web.page_views", 10),
        ("_2nd_clicks", "2nd-clicks", "web.2nd_clicks", 10),
    ]


def test_a_template_becomes_what_the_broker_has():
    """Whole names match, internal topics never, own pipelines keep their topic; again changes nothing."""
    config = config_of(
        "pipelines:\n"
        "  own: {topic: shop.own, table: l.own}\n"
        "  shop: {topics_regex: 'shop\\..*|__.*', table: 'l.{topic}', owners: team:shop}\n"
    )
    assert [p.name for p in config.pipelines] == ["own"]
    topics = ["shop.own", "shop.a", "shop.b", "bookshop.c", "__consumer_offsets"]
    expanded = expand(config, topics)
    assert [(p.name, p.topic, p.table) for p in expanded.pipelines] == [
        ("own", "shop.own", "l.own"),
        ("shop_a", "shop.a", "l.shop_a"),
        ("shop_b", "shop.b", "l.shop_b"),
    ]
    assert expanded.pipelines[1].owners == ("team:shop",)
    assert expand(expanded, topics) == expanded
    assert [p.name for p in expand(expanded, ["shop.a"]).pipelines] == ["own", "shop_a"]


def test_a_pipeline_knows_the_gateways_stream_that_writes_its_topic():
    """Whether it names the topic or a template does; of other topics there is none."""
    config = config_of(
        "gateway: {streams: {clicks: {topic: web.clicks}, views: {topic: web.views}}}\n"
        "pipelines:\n"
        "  own: {topic: web.clicks, table: l.own}\n"
        "  web: {topics_regex: 'web.*', table: 'l.{topic}'}\n"
    )
    expanded = expand(config, ["web.views", "web.orders"])
    assert {p.topic: p.stream for p in expanded.pipelines} == {
        "web.clicks": "clicks",
        "web.views": "views",
        "web.orders": None,
    }


def test_two_topics_with_one_safe_name_are_a_problem():
    """Only the first of the listing is drained, whatever its name, and the other is named."""
    config = config_of("pipelines:\n  shop: {topics_regex: 'shop.*', table: 'l.{topic}'}\n")
    expanded = expand(config, ["shop_a", "shop.a"])
    assert [p.topic for p in expanded.pipelines] == ["shop_a"]
    (problem,) = expanded.problems
    assert problem.line == 3
    assert (
        "topic shop.a would become the pipeline shop_a with table l.shop_a, which"
        in problem.message
        in problem.message
    )
    assert contested(config, ["shop_a", "shop.a", "shop.b"]) == {"l.shop_a"}
    assert expand(expanded, ["shop.a"]).problems == ()


def test_expanding_keeps_what_a_team_got_wrong(tmp_path, monkeypatch):
    """A team's wrong expression stays a problem while the main file's templates are expanded."""
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    main = team_folder(tmp_path, b="pipelines: {b: {topics_regex: '[', table: 'l.{topic}'}}\n")
    main.write_text(main.read_text() + "  all: {topics_regex: 'x.*', table: 'l.{topic}'}\n")
    assert [p.key for p in load_config(main).problems] == ["pipelines.b.topics_regex"]


def test_loading_expands_by_the_list_last_written(tmp_path, monkeypatch):
    """Loading asks no broker: the list under ``state:`` stands for it, and the last one counts."""
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    main = tmp_path / "sluice.yaml"
    main.write_text("version: 1\npipelines: {all: {topics_regex: '.*', table: 'l.{topic}'}}\n")
    assert load_config(main).pipelines == ()
    write_topics(load_config(main), ["c"])
    write_topics(load_config(main), ["b", "a"])
    assert [p.name for p in load_config(main).pipelines] == ["a", "b"]


def test_team_files_add_pipelines_with_defaults_of_their_own(tmp_path):
    """The main file's defaults, then the team's, then the pipeline's."""
    main = team_folder(
        tmp_path,
        b="defaults: {table_properties: {b: 2}}\npipelines: {b: {topic: b, table: l.b, freshness: 1s}}\n",
    )
    config = load_config(main)
    assert config.problems == ()
    assert [(p.name, p.freshness_seconds, p.table_properties) for p in config.pipelines] == [
        ("a", 300, {"a": "1", "b": "1"}),
        ("b", 1, {"a": "1", "b": "2"}),
    ]


@pytest.mark.parametrize(
    ("bad", "key"),
    [
        ("pipelines: {b: {topic: b, table: l.b, colour: red}}\n", "pipelines.b.colour"),
        ("pipelines: {b: {topic: b, table: l.a}}\n", "pipelines.b.table"),
        ("pipelines: {a: {topic: b, table: l.b}}\n", "pipelines.a"),
        ("kafka: {bootstrap.servers: x}\n", "kafka"),
        ("pipelines: {b: {topic: b, topic: c, table: l.b}}\n", "pipelines.b.topic"),
        ("pipelines: {b\n", ""),
    ],
)
def test_a_bad_team_file_stops_nobody_else(tmp_path, bad, key):
    """It is left out as a whole and named; the main file's and the others' pipelines stand."""
    config = load_config(team_folder(tmp_path, b=bad, c="pipelines: {c: {topic: c, table: l.c}}\n"))
    assert [p.name for p in config.pipelines] == ["a", "c"]
    (problem,) = config.problems
    assert problem.file == f"{tmp_path}/teams/b.yaml"
    assert problem.line is not None
    assert problem.key == key


def test_an_included_path_that_is_not_there_is_a_problem(tmp_path):
    """A glob may match nothing, a plain path may not."""
    main = tmp_path / "sluice.yaml"
    main.write_text("version: 1\ninclude:\n  - none/*.yaml\n  - teams.yaml\n")
    (problem,) = load_config(main).problems
    assert (problem.line, problem.key) == (4, "include")


@pytest.mark.parametrize(("topic", "name"), [("a.b-c", "a_b_c"), ("1st", "_1st"), ("plain", "plain")])
def test_safe_names(topic, name):
    """Letters, digits and underscores, not starting with a digit."""
    assert safe_name(topic) == name


NOTIFIED = "pipelines: {{b: {{topic: b, table: l.b, notify: {{webhook: '{}'}}}}}}\n"
LENDS = "[{files: teams/*.yaml, secrets: [A_HOOK], webhook_hosts: [hooks.example.com, 'http://in.lan:8080']}]"


@pytest.mark.parametrize(
    ("webhook", "told"),
    [
        ("https://hooks.example.com/x?k=${ANY_ENV}", 'secrets: ["ANY_ENV"]'),
        ("https://hooks.example.com/${file:/etc/passwd}", 'secrets: ["file:/etc/passwd"]'),
        ("${ANY_ENV}", 'secrets: ["ANY_ENV"]'),
        ("https://169.254.169.254/latest", 'webhook_hosts: ["169.254.169.254"]'),
        ("http://hooks.example.com/x", 'webhook_hosts: ["http://hooks.example.com"]'),
        ("https://hooks.example.com:8443/x", 'webhook_hosts: ["hooks.example.com:8443"]'),
        ("https://hooks.example.com.evil.org/x", "hooks.example.com.evil.org"),
        ("https://hooks.example.com@evil.org/", "in plain"),
        ("https://evil.org\\@hooks.example.com/", "in plain"),
        ("https://${A_HOOK}.evil.org/", "in plain"),
        ("${A_HOOK}${A_HOOK}", "in plain"),
    ],
)
@pytest.mark.parametrize("key", ["webhook", "trouble"])
def test_a_team_file_uses_only_what_the_main_file_lends(tmp_path, webhook, told, key):
    """A secret or a host that is not lent leaves the file out, with the key and the line to write."""
    main = team_folder(tmp_path, b=NOTIFIED.format(webhook).replace("webhook:", f"{key}:"))
    main.write_text(main.read_text().replace("teams/*.yaml", LENDS))
    config = load_config(main)
    problem = config.problems[0]
    assert (problem.key, problem.line) == (f"pipelines.b.notify.{key}", 1)
    assert told in str(problem)
    assert [each.name for each in config.pipelines] == ["a"]


BORROWED = {
    "value: {format: avro, registry: main}": ("value.registry", "registries: [main]"),
    "value: {format: string}, key: {format: avro, registry: main}": ("key.registry", "registries: [main]"),
    "layout: mirror, mirror: {source: shop}": ("mirror.source", "sources: [shop]"),
    "notify: {secret: '${A_HOOK}'}": ("notify.secret", 'secrets: ["A_HOOK"]'),
}


@pytest.mark.parametrize("of", ["defaults", "pipeline"])
@pytest.mark.parametrize("settings", BORROWED)
def test_a_team_file_names_only_registries_and_sources_that_are_lent(tmp_path, settings, of):
    """It is left out with the line to add, in its defaults too; with that line it is taken."""
    key, line = BORROWED[settings]
    place = "defaults" if of == "defaults" else "pipelines.b"
    pipeline = "topic: b, table: l.b" + (f", {settings}" if of == "pipeline" else "")
    main = team_folder(
        tmp_path, b=f"defaults: {{{settings * (of == 'defaults')}}}\npipelines: {{b: {{{pipeline}}}}}\n"
    )
    main.write_text(
        main.read_text() + "registries: {main: {url: 'http://r'}}\nsources: {shop: '${SHOP_POSTGRES}'}\n"
    )
    config = load_config(main)
    (problem,) = config.problems
    assert problem.key == f"{place}.{key}"
    assert "which the main file does not allow in this team's file" in problem.message
    assert [each.name for each in config.pipelines] == ["a"]
    entry = f"{{files: {tmp_path}/teams/b.yaml, {line}}}"
    assert entry in problem.hint
    main.write_text(main.read_text().replace("teams/*.yaml", f"[{entry}]"))
    config = load_config(main)
    assert config.problems == ()
    assert [each.name for each in config.pipelines] == ["a", "b"]


def test_what_the_main_files_defaults_name_needs_no_lending(tmp_path):
    """The platform said it of every pipeline, those of teams too."""
    main = team_folder(tmp_path, b="pipelines: {b: {topic: b, table: l.b}}\n")
    main.write_text(
        main.read_text().replace("defaults: {", "defaults: {value: {format: avro, registry: main}, ")
        + "registries: {main: {url: 'http://r'}}\n"
    )
    config = load_config(main)
    assert config.problems == ()
    assert config.pipelines[1].value.registry == "main"


@pytest.mark.parametrize("webhook", ["https://hooks.example.com:443/x", "https://hooks.example.com/x"])
@pytest.mark.parametrize("host", ["hooks.example.com", "hooks.example.com:443"])
def test_the_port_that_a_scheme_has_anyway_makes_no_other_host(tmp_path, webhook, host):
    """On either side."""
    main = team_folder(tmp_path, b=NOTIFIED.format(webhook))
    main.write_text(main.read_text().replace("teams/*.yaml", LENDS.replace("hooks.example.com", host)))
    assert not load_config(main).problems


@pytest.mark.parametrize(
    "webhook",
    [
        "${A_HOOK}",
        "https://Hooks.example.com/x?k=${A_HOOK}",
        "http://in.lan:8080",
        "https://hooks.example.com#a",
    ],
)
def test_what_is_lent_can_be_used(tmp_path, webhook):
    """Secrets and hosts by exact name; a URL that is one secret leads where the platform wants."""
    main = team_folder(tmp_path, b=NOTIFIED.format(webhook))
    main.write_text(main.read_text().replace("teams/*.yaml", LENDS))
    assert load_config(main).problems == ()
    main.write_text(main.read_text().replace(LENDS, "teams/*.yaml"))
    (problem, *_) = load_config(main).problems
    assert "include: [{files: " in problem.hint
