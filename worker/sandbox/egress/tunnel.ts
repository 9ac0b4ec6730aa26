/**
 * Joins two sockets: forwards bytes both ways with backpressure, and closes each half separately.
 *
 * An idle tunnel is closed. After a clean close of one side, its remaining bytes are still delivered as long as the
 * other side keeps reading. When one side fails, both are destroyed at once.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports.ts'
import { MODEL_API_IDLE_MS_MAX } from '../../../protocol/limits.ts'

/** As long as the model proxy waits: a model may think for minutes before its first byte, and is paid for each request. */
export const IDLE_MS_MAX = MODEL_API_IDLE_MS_MAX

/**
 * Resolves when both are closed. Both need an `error` listener and must be created with `allowHalfOpen`. `forward` begins
 * to forward the bytes of the first.
 */
export async function runTunnel(
  first: Socket,
  second: Socket,
  clock: Clock,
  forward: (from: Socket, to: Socket) => void = (from, to) => void from.pipe(to),
): Promise<void> {
  const stopWatching = watchIdle([first, second], clock)
  const ends = [awaitClose(first, second), awaitClose(second, first)]
  forward(first, second)
  second.pipe(first)
  await Promise.all(ends)
  stopWatching()
}

/** Resolves when `socket` has closed, and then closes `partner`. */
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
