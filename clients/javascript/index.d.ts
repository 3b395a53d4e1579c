/// <reference types="node" />

/** What a client, a fetch or an adapter is made of. */
export interface Options {
  /** Scheme and host of the gateway, such as "https://cards.example.com". */
  baseUrl: string;
  /** The X-API-Key value. */
  keyId: string;
  /** The signing secret, exactly as it was shown. */
  secret: string;
  /** The largest number of attempts; 1: no repetition. Default: 3. */
  attempts?: number;
  /** The longest wait before another attempt, in seconds; if the server asks for more, there is none. Default: 30. */
  maxWait?: number;
  /** Is called with a text when the clock of this machine is wrong. Default: process.emitWarning. */
  warn?: (message: string) => void;
  /** Returns the time in milliseconds. Default: Date.now. */
  now?: () => number;
  /**
   * Believes only answers that the gateway has signed for the request; the error for others is an UnprovenError. It needs a
   * gateway with the option sign_responses. Without it somebody between can forge answers, and nothing is certain. Default: false.
   */
  verifyAnswers?: boolean;
}

/** Parameters; those that are null or undefined are left out. */
export type Query = Record<string, string | number | boolean | null | undefined> | Array<[string, string | number | null | undefined]> | URLSearchParams;

/** Names one call: what is signed once, and accepted at most once. timestamp is in Unix seconds. */
export interface Call {
  nonce: string;
  timestamp: number;
}

/** What can be signed: its bytes are known before it is sent. */
export type Body = string | ArrayBuffer | ArrayBufferView | FormData | URLSearchParams | Blob | null | undefined;

/** An answer with a status below 300. */
export interface Answer {
  status: number;
  headers: Headers;
  body: Buffer;
  /** Returns the JSON of the body. */
  json<T = any>(): T;
}

/** Calls the card API of one gateway with one key. */
export class Client {
  /** timeout: for a whole call, all attempts included, in seconds. Default: 120. dispatcher: that of undici, such as an Agent. */
  constructor(options: Options & { timeout?: number; dispatcher?: unknown });
  /** Reads the path with the parameters of the query. */
  get(path: string, query?: Query): Promise<Answer>;
  /** Sends a value as JSON; without one, no body. */
  post(path: string, json?: unknown): Promise<Answer>;
  /** Sends a value as JSON. */
  patch(path: string, json: unknown): Promise<Answer>;
  /**
   * Sends a request; path is escaped, call what newCall has returned, if it was stored. Rejects with UnsignableError,
   * ConnectionError, UnprovenError, RedirectError, ApiError, TakenError or UnknownError.
   */
  request(method: string, path: string, options?: {
    query?: Query; json?: unknown; body?: Body; headers?: HeadersInit | Record<string, string>; call?: Call; signal?: AbortSignal;
  }): Promise<Answer>;
  /** Returns a nonce and a timestamp for a request, to be stored before it is sent. */
  newCall(): Call;
  /**
   * Makes sure that a call whose outcome is not known is never executed. Resolves if it was not, and never will be; rejects with
   * TakenError if it was taken before, with UnknownError if that cannot be found out any more. Any other error decides nothing.
   */
  closeCall(call: Call): Promise<void>;
}

/**
 * Returns a function with the signature of fetch that repeats as Client does and follows no redirect. Answers of every
 * status are returned. Rejects with UnsignableError before anything is sent, with TakenError and UnknownError. A request with
 * the headers X-Nonce and X-Timestamp is signed with these. A path is put behind that of the base URL.
 */
export function createFetch(options: Options): typeof fetch;

/** The credentials of one key. */
export class Signer {
  constructor(keyId: string, secret: string);
  readonly keyId: string;
  /** Returns the five headers of one attempt; target is the path and query as they are written on the wire. */
  headers(method: string, target: string, body?: string | Uint8Array, moment?: { timestamp?: number | string; nonce?: string }): Record<string, string>;
  /**
   * Throws UnprovenError unless the gateway has signed the answer to the request that was sent with the nonce. body is as it
   * was received, before a Content-Encoding is removed; now is the time in milliseconds.
   */
  verifyAnswer(nonce: string, answer: { status: number; headers: Headers; body: Uint8Array }, now?: number): void;
}

/** Whether the Date of an answer from the URL may set the clock: over TLS, and from this machine. */
export function trustsDate(url: string | URL): boolean;

/** Any failure of a request. */
export class CardError extends Error {}

/** The request cannot be signed; nothing was sent. The message says what to do. */
export class UnsignableError extends CardError {}

/** The answer leads elsewhere, and was not followed: a signature is for one target of one host. */
export class RedirectError extends CardError {
  readonly status: number;
  readonly location: string;
}

/** There was no whole answer. */
export class ConnectionError extends CardError {
  /** Whether the server may have received the request. */
  readonly sent: boolean;
  readonly attempts: number;
}

/**
 * The gateway had accepted the call before: an earlier attempt has arrived, and its answer was lost. The issuer has executed it at most
 * once, perhaps not: read what it should have made. Do not send it as a new call.
 */
export class TakenError extends CardError {
  readonly call: Call;
  readonly requestId: string;
}

/** It is not known whether the call was executed, or will be until the time, in Unix seconds. Client.closeCall settles it. */
export class UnknownError extends CardError {
  readonly call: Call;
  readonly until: number;
  readonly attempts: number;
}

/** The gateway has not signed the answer for this request, while verifyAnswers is set. The request may have been executed. */
export class UnprovenError extends CardError {
  /** As it was received. */
  readonly status: number;
  /** As it was received. */
  readonly requestId: string;
  /** Whether the answer has no signature at all, as refusals with 400 and 401. */
  readonly unsigned: boolean;
}

/** An answer with a status of 400 or more, from the gateway or the issuer. */
export class ApiError extends CardError {
  readonly status: number;
  /** Such as "VALIDATION_FAILED"; empty if the body names none. */
  readonly code: string;
  /** The message of the body. */
  readonly reason: string;
  readonly details: Array<{ field?: string; finding?: string; message: string }>;
  /** By which the operator finds the request. */
  readonly requestId: string;
  /** Whether the gateway says that it has accepted the request, and no issuer has seen it: it is certainly not executed. */
  readonly notExecuted: boolean;
  /** In seconds, or null. */
  readonly retryAfter: number | null;
  readonly body: Buffer;
}

/** The version of this package. */
export const version: string;
