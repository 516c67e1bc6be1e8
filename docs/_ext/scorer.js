// How the search ranks pages. Sphinx gives 100 for an entry of the index that reads like the query, 15 for a
// word of it in a heading and 5 for one in the text; what is equal there is told apart by the kind of page.
const KINDS = [
  [/^guide\/(?!index|older-guides)/, 8],
  [/^(guide\/index|first-run|validate|kernels)$/, 5],
  [/^rules\//, 3],
  [/^(reference\/|glossary)/, 2],
  [/^model\//, 1],
];

var Scorer = {
  score: (result) => {
    const [page, , anchor, , score] = result;
    // An entry of the index stands for its page, and has no text of its own to show.
    if (anchor.startsWith("#index-")) result[2] = "";
    const kind = KINDS.find(([pattern]) => pattern.test(page));
    return score + (kind ? kind[1] : 0);
  },
  // Sphinx's own.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// A page that was opened as a file may not read the pages that it found.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
