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
export async function tunnel(one: Socket, other: Socket, clock: Clock): Promise<void> {
  const unwatch = watchIdle([one, other], clock)
  const ends = [closed(one, other), closed(other, one)]
  one.pipe(other)
  other.pipe(one)
  await Promise.all(ends)
  unwatch()
}

/** When `socket` has closed, which takes `partner` along. */
function closed(socket: Socket, partner: Socket): Promise<void> {
  return new Promise((resolve) => {
    const leave = (broken: boolean) => {
      if (broken) partner.destroy()
      else partner.destroySoon()
      resolve()
    }
    if (socket.destroyed) leave(true)
    else socket.once('close', leave)
  })
}

function watchIdle(sockets: readonly Socket[], clock: Clock): () => void {
  let movedAt = clock.monotonic()
  const move = () => {
    movedAt = clock.monotonic()
  }
  const look = () => {
    const leftMs = movedAt + IDLE_MS_MAX - clock.monotonic()
    if (leftMs > 0) cancel = clock.after(leftMs, look)
    else for (const socket of sockets) socket.destroy()
  }
  let cancel = clock.after(IDLE_MS_MAX, look)
  for (const socket of sockets) socket.on('data', move)
  return () => cancel()
}
