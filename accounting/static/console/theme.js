// Applies the chosen theme before anything is painted.
"use strict";
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden: the system's theme it is */ }
