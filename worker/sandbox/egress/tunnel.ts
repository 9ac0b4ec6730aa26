/**
 * Two sockets joined: bytes both ways, each side as fast as the other takes them, each half closed on its own.
 *
 * A tunnel in which nothing moves is closed. What one side said before it closed properly is still delivered to the
 * other, for as long as that keeps taking it; when one side breaks off, both are cut at once.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports.ts'

export const IDLE_MS_MAX = 30_000

/** Resolves when both are closed. Both need an `error` listener of their own, and are made with `allowHalfOpen`. */
export async function runTunnel(first: Socket, second: Socket, clock: Clock): Promise<void> {
  const stopWatching = watchIdle([first, second], clock)
  const ends = [awaitClose(first, second), awaitClose(second, first)]
  first.pipe(second)
  second.pipe(first)
  await Promise.all(ends)
  stopWatching()
}

/** When `socket` has closed, which takes `partner` along. */
function awaitClose(socket: Socket, partner: Socket): Promise<void> {
  return new Promise((resolve) => {
    const onClosed = (broken: boolean) => {
      if (broken) partner.destroy()
      else partner.destroySoon()
      resolve()
    }
    if (socket.destroyed) onClosed(true)
    else socket.once('close', onClosed)
  })
}

function watchIdle(sockets: readonly Socket[], clock: Clock): () => void {
  let movedAt = clock.monotonic()
  const onMovement = () => {
    movedAt = clock.monotonic()
  }
  const check = () => {
    const leftMs = movedAt + IDLE_MS_MAX - clock.monotonic()
    if (leftMs > 0) cancel = clock.after(leftMs, check)
    else for (const socket of sockets) socket.destroy()
  }
  let cancel = clock.after(IDLE_MS_MAX, check)
  for (const socket of sockets) socket.on('data', onMovement)
  return () => cancel()
}
