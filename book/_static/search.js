// Sphinx fetches the pages it has found to quote from them. A browser refuses that to pages which
// were opened as files; there the titles have to do.
"use strict";
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
