// The bearer token, where the service asks for one: in memory only, gone when the page is closed.

import { byId, setText } from "./dom.js";

let token = "";
let asking = null;

/** Headers of a request. */
export const authorization = () => (token ? { Authorization: `Bearer ${token}` } : {});

/** Ask the person for the token; all who need it meanwhile wait for the same answer. */
export function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = byId("ask-token");
    const field = byId("token");
    setText(byId("token-wrong"), token ? "The service did not accept this token." : "");
    field.value = "";
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      token = field.value.trim();
      field.value = "";
      dialog.close();
      asking = null;
      resolve();
    };
    dialog.oncancel = (event) => event.preventDefault(); // nothing can be shown without it
    dialog.showModal();
  });
  return asking;
}
