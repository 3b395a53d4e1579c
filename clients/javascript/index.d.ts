/// <reference types="node" />

/** What a client, a fetch or an adapter is made of. */
export interface Options {
  /** Scheme and host of the gateway, such as "https://cards.example.com". */
  baseUrl: string;
  /** The X-API-Key value. */
  keyId: string;
  /** The signing secret, exactly as it was shown. */
  secret: string;
  /** The largest number of attempts. Default: 3. */
  attempts?: number;
  /** The longest wait before another attempt, in seconds; if the server asks for more, its answer is final. Default: 30. */
  maxWait?: number;
  /** Is called with a text when the clock of this machine is wrong. Default: process.emitWarning. */
  warn?: (message: string) => void;
  /** Returns the time in milliseconds. Default: Date.now. */
  now?: () => number;
  /**
   * Makes every answer that the gateway has not signed for the request an UnprovenError. It needs a gateway with the
   * option sign_responses. Default: false.
   */
  verifyAnswers?: boolean;
}

export type Query = Record<string, string | number | boolean> | Array<[string, string | number]> | URLSearchParams;

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
  /** timeout: for a whole call, all attempts included, in seconds. Default: 120. */
  constructor(options: Options & { timeout?: number });
  /** Reads the path with the parameters of the query. */
  get(path: string, query?: Query): Promise<Answer>;
  /** Sends a value as JSON; without one, no body. */
  post(path: string, json?: unknown): Promise<Answer>;
  /** Sends a value as JSON. */
  patch(path: string, json: unknown): Promise<Answer>;
  /** Sends a request; path is escaped. Rejects with UnsignableError, ConnectionError, UnprovenError, RedirectError or ApiError. */
  request(method: string, path: string, options?: {
    query?: Query; json?: unknown; body?: Body; headers?: HeadersInit | Record<string, string>;
  }): Promise<Answer>;
}

/**
 * Returns a function with the signature of fetch that signs each attempt and follows no redirect. Answers of every
 * status are returned. Rejects with UnsignableError before anything is sent.
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
  /** In seconds, or null. */
  readonly retryAfter: number | null;
  readonly body: Buffer;
}

/** The version of this package. */
export const version: string;
