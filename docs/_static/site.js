// The switch between the languages keeps the place on the page, whose anchors are the same in both, and what
// was searched for.
document.addEventListener("click", (event) => {
  const link = event.target.closest(".language-switch a");
  if (link) {
    link.search = location.search;
    link.hash = location.hash;
  }
});

// Whatever scrolls sideways can be reached with the keyboard.
const WIDE = "pre, .table-wrapper, .math-block, .floor-plan, figure.drawn details";
const reach = () => {
  for (const box of document.querySelectorAll(WIDE)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("load", reach);
addEventListener("resize", reach);

// Readers of screens tell the two sidebars apart by the title of the one on the right.
addEventListener("load", () => {
  const title = document.querySelector(".toc-drawer .toc-title");
  if (title) {
    title.id = "toc-title";
    title.closest(".toc-drawer").setAttribute("aria-labelledby", title.id);
  }
});
