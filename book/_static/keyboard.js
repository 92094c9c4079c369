// The theme takes the focus from the buttons of its sidebars on each click; when a sidebar closes, a
// reader with a keyboard would start again at the top of the page.
"use strict";

/**
 * Give the focus back to the button that opened a sidebar.
 * @param {string} dialog the id of the dialog that the sidebar becomes on a narrow screen
 * @param {string} button the selector of its button
 */
function giveFocusBack(dialog, button) {
  const opener = document.querySelector(button);
  document.getElementById(dialog)?.addEventListener("close", () => opener?.focus());
}

document.addEventListener("DOMContentLoaded", () => {
  giveFocusBack("pst-primary-sidebar-modal", ".primary-toggle");
  giveFocusBack("pst-secondary-sidebar-modal", ".secondary-toggle");
});
