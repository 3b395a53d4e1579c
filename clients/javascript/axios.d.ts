import type { AxiosAdapter } from "axios";
import type { Options } from "./index";

/**
 * Returns an adapter that signs what axios sends, each attempt anew, and follows no redirect. Answers and failed
 * connections are those of axios. Rejects with UnsignableError before anything is sent.
 */
export function cardAdapter(options: Options): AxiosAdapter;
