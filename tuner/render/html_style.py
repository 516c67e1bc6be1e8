"""How the advice in HTML looks: in light and dark, on a narrow screen, on paper."""

#: What is wide scrolls in itself, so that the page does not.
STYLE = """
:root {
  color-scheme: light dark; --ground: #ffffff; --text: #1b1b1b; --shade: #f3f4f6; --line: #767676;
  --good: #116329; --doubtful: #7a4b00; --bad: #a40e26; --advice: #0b5563; --dim: #555555; --link: #0b4fa8;
}
@media screen and (prefers-color-scheme: dark) { :root {
  --ground: #16181c; --text: #e8e8e8; --shade: #22262c; --line: #8b8b8b;
  --good: #7ee2a8; --doubtful: #f0c674; --bad: #ff9c9c; --advice: #8bd5e6; --dim: #b4b4b4; --link: #9cc4ff;
} }
html { background: var(--ground); color: var(--text); font-family: system-ui, sans-serif; }
body {
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.45; overflow-wrap: anywhere;
}
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; } p { margin: .5rem 0; }
a { color: var(--link); } code { font-size: .9em; }
.verdict { border-left: .3rem solid; padding: .1rem .8rem; } .verdict h1 { margin-top: 0; }
.verdict:has(h1 .good) { border-color: var(--good); } .verdict:has(h1 .bad) { border-color: var(--bad); }
.verdict:has(h1 .doubtful) { border-color: var(--doubtful); }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; }
.tiles > div {
  display: block; flex: 1 1 9rem; background: var(--shade); border-radius: .3rem; padding: .6rem .8rem;
}
.tiles dt { font-weight: normal; color: var(--dim); } .tiles dd { margin: 0; color: var(--dim); }
.tiles strong { display: block; font-size: 1.3rem; color: var(--text); }
button {
  float: right; margin: .3rem; font: inherit; font-size: .8rem; color: var(--text); cursor: pointer;
  background: var(--ground); border: 1px solid var(--line); border-radius: .3rem; padding: .15rem .6rem;
}
.bar { fill: var(--advice); opacity: .55; }
.good { color: var(--good); } .doubtful, .warning { color: var(--doubtful); }
.bad, .error { color: var(--bad); } .advice { color: var(--advice); } .dim { color: var(--dim); }
pre, .wide { overflow-x: auto; }
pre {
  background: var(--shade); padding: .6rem .8rem; border-radius: .3rem; font-size: .85rem; line-height: 1.35;
  overflow-wrap: normal;
}
table { border-collapse: collapse; overflow-wrap: normal; font-variant-numeric: tabular-nums; }
caption { text-align: left; } caption > * { margin: .6rem 0; }
th, td { text-align: left; padding: .25rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody th { font-weight: normal; } .right { text-align: right; white-space: nowrap; }
ol, ul { padding-left: 2.2rem; } li { margin: .6rem 0; } ol > li { margin: 1.2rem 0; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; }
@media (min-width: 40rem) { dl > div { display: grid; grid-template-columns: 8rem minmax(0, 1fr); } }
.pictures { display: flex; flex-wrap: wrap; gap: 2rem; }
.pictures figure { flex: 1 1 min(24rem, 100%); min-width: 0; margin: 0; max-width: 30rem; }
svg { width: 100%; height: auto; }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; }
@media print {
  :root { color-scheme: light; } .data, button { display: none; } rect { print-color-adjust: exact; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; } li, figure, tr { break-inside: avoid; }
  details > * { display: block !important; }
}
@media print { details::details-content { display: block; content-visibility: visible; height: auto; } }
"""
