import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import tuner  # noqa: E402

project = "tuner"
author = "tuner contributors"
copyright = "2026, tuner contributors"
release = version = tuner.__version__

# One source, two sites: the language is given with -D language=zh_CN or in DOCS_LANG.
language = os.environ.get("DOCS_LANG", "en")

extensions = [
    "accuracy",
    "calculator_page",
    "call_trace",
    "captions",
    "code_lines",
    "code_lines",
    "cli_reference",
    "computed",
    "drawn_figures",
    "engine_batches",
    "engine_starts",
    "facts",
    "folded",
    "formulas",
    "head_benchmark",
    "import_picture",
    "inside_verl",
    "kernel_text",
    "kept_answers",
    "key_classes",
    "languages",
    "mathml",
    "measured_changes",
    "measured_tiles_table",
    "navigation",
    "older_guides",
    "operator_tables",
    "spread_table",
    "premise_keywords",
    "profile_tables",
    "project_table",
    "record_lines",
    "report_reference",
    "rollout_prices",
    "rule_examples",
    "rule_pages",
    "rule_sources",
    "run_command",
    "search_languages",
    "seconds_accuracy",
    "site_requirements",
    "skipped_updates",
    "automodel_passes",
    "nemo_steps",
    "worker_updates",
    "skipping",
    "sphinx.ext.extlinks",
    "sphinx_copybutton",
    "symptoms",
    "terms",
    "trainer_interface",
    "validation_reports",
    "verl_examples",
    "verl_rules",
    "whole_runs",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
nitpicky = True
smartquotes = False
extlinks = {"verl-issue": ("https://github.com/verl-project/verl/issues/%s", "verl #%s")}

# Messages live at the top of the repository; the theme's own strings apart from them,
# since updating the messages would delete what no page of ours says.
locale_dirs = ["../locale", "_ui"]
gettext_compact = True
gettext_uuid = False
gettext_location = False
gettext_additional_targets = ["index"]  # what people type into the search

html_theme = "furo"
html_title = "tuner"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_math_renderer = "mathml"
html_search_scorer = str(HERE / "_ext" / "scorer.js")
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
html_show_sourcelink = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/languages.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
