/** All sockets of one kind on one listener, as whoever opens and closes the doors sees them. */
export interface SocketGroup {
  count(): number
  /** Says goodbye to each; those that do not read it are cut a while later. */
  closeAll(code: number, reason: string): void
  /** Lets go of the desk: nothing more comes from there. */
  stop(): void
}
