// The review page: it asks what there is to review, and listens.
import { ask, work } from "./api.js";
import { at } from "./dom.js";
import { bindFilters } from "./filter.js";
import { bindGrid } from "./grid.js";
import { bindKeys } from "./keys.js";
import { bindPicker } from "./picker.js";
import { begin, remember } from "./session.js";
import { bindSingle } from "./single.js";
import { bindSummary } from "./summary.js";
import { refresh } from "./walk.js";

at("reviewer").addEventListener("change", () => {
  remember();
  refresh();
});
await work(async () => begin(await ask("/api/setup")));
bindPicker();
bindFilters(refresh);
bindSingle();
bindGrid();
bindSummary();
bindKeys();
refresh();
