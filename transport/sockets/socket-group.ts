/** All sockets of one kind on one listener. */
export interface SocketGroup {
  count(): number
  /** Closes each socket; a socket that does not read the close frame is terminated after `DRAIN_MS_MAX`. */
  closeAll(code: number, reason: string): void
  /** Stops listening to the host API. */
  stop(): void
}
