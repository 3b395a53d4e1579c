import type { AxiosAdapter } from "axios";
import type { Options } from "./index";

/**
 * Returns an adapter that signs what axios sends, repeats as Client does, and follows no redirect. Answers and failed
 * connections are those of axios. Rejects with UnsignableError before anything is sent.
 */
export function cardAdapter(options: Options): AxiosAdapter;
