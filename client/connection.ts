/**
 * The surroundings of a client: the host's address, one way to send requests and one to open sockets.
 *
 * Node has one pair of ways (`node-http.ts`, `node-socket.ts`), a browser another (`browser.ts`); everything else in
 * this folder runs in both.
 */
import type { RequestName } from './client.ts'

/** The users whose program may be the host. The superuser's program always may. */
export interface HostOwner {
  /** The first one is named to people. */
  readonly users: readonly number[]
  /** The text that a person writes before a user's name to allow that user as well. */
  readonly setting?: string
  /** The host's socket in a folder that only its user may enter. It takes the place of the port, and is the proof. */
  readonly socketPath?: string
  /** The host is this process, which has the port as long as it asks itself. */
  readonly isThisProcess?: true
}

export interface HostAddress {
  /** Without a trailing slash. */
  readonly url: string
  /** Sent in a header only. Absent where a cookie stands in its place. */
  readonly token?: string
  /** The source of the token, for the message about a wrong token. */
  readonly tokenFrom?: string
  /** The user whose program the host is, on this machine. Absent: the user of this process. */
  readonly owner?: HostOwner
  /** Headers by which the program names itself. */
  readonly headers?: Readonly<Record<string, string>>
  /** Named by the environment, so looking again finds the same host. */
  readonly isFromEnvironment?: true
}

export interface ClientConnection {
  /** Asked before each request and each socket, because a restarted host has another port and another token. */
  address(): HostAddress | Promise<HostAddress>
  readonly send: SendRequest
  readonly dial: DialSocket
  /** Whether a host may have sent the answer. Absent where no other program can be at the address. */
  readonly isAnswer?: (name: RequestName, answer: unknown) => boolean
}

// ---- requests ------------------------------------------------------------------------------------------------------

export interface ClientRequest {
  readonly method: string
  readonly url: string
  readonly owner?: HostOwner | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Ends the request, and the reading of its answer. */
  readonly signal: AbortSignal
}

export interface ClientReply {
  readonly status: number
  header(name: string): string | undefined
  readonly body: AsyncIterable<Uint8Array>
}

/**
 * Follows no redirect, which would carry the token elsewhere, and within a machine sends nothing to another user's
 * program. Rejects when there is no reply.
 */
export type SendRequest = (request: ClientRequest) => Promise<ClientReply>

// ---- sockets -------------------------------------------------------------------------------------------------------

/** How a connection ended, or why there was none. */
export interface SocketEnd {
  /** The HTTP reply instead of a socket. */
  readonly reply?: HostReply
  /** The code of the host's close frame. */
  readonly code?: number
  readonly reason: string
}

/** `onEnd` is called exactly once, nothing is called after it, and nothing before `dial` has returned. */
export interface SocketListener {
  onOpen(): void
  onText(text: string): void
  onEnd(end: SocketEnd): void
}

export interface ClientSocket {
  /** Does nothing unless the socket is open. */
  send(text: string): void
  /** Bytes that are not sent yet. */
  backlog(): number
  close(): void
}

/** @param path of the socket's route, with a leading slash */
export type DialSocket = (address: HostAddress, path: string, listener: SocketListener) => ClientSocket

/** An answer whose body was read. */
export interface HostReply {
  readonly status: number
  readonly text: string
  /** The header `WWW-Authenticate`, which tells a wrong token from a missing one. */
  readonly challenge?: string
}
