// Requests to the service: returns JSON, throws errors with the service's own text.

import { byId, setText } from "./dom.js";

export class ServiceError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The response of a path, after asking for the token if needed. Throws ServiceError, TypeError (network). */
export async function request(path, options = {}) {
  for (;;) {
    const used = authorization();
    const response = await fetch(path, {
      ...options,
      headers: { ...options.headers, ...used },
      cache: "no-store",
      credentials: "omit",
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new ServiceError(response.status, await detailOf(response));
    if (used.Authorization === authorization().Authorization) await askForToken();
  }
}

/** The document of a path. */
export const getJson = async (path, signal) => (await request(path, { signal })).json();

async function detailOf(response) {
  try {
    const problem = await response.json();
    return problem.detail || problem.title || `status ${response.status}`;
  } catch {
    return `status ${response.status}`;
  }
}

// The bearer token, if the service requires one: in memory only, gone when the page is closed.

let token = "";
let asking = null;

/** Headers of a request. */
const authorization = () => (token ? { Authorization: `Bearer ${token}` } : {});

/** Ask the user for the token; concurrent callers share the same dialog. */
function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = byId("ask-token");
    const field = byId("token");
    setText(byId("token-wrong"), token ? "Token not accepted." : "");
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
