/** Watching: what goes on until Ctrl-C, which ends the watching alone. */

import type { Output } from '../output/output.ts'
import { EXIT_OF_SIGNAL } from './exit.ts'

/** @param rest the sentence about what goes on: `ENG-231 goes on` */
export async function whileWatching(
  { output }: { readonly output: Output },
  rest: string,
  watch: (signal: AbortSignal) => Promise<number | undefined>,
): Promise<number | undefined> {
  const stop = new AbortController()
  let code: number | undefined
  const listeners = (['SIGINT', 'SIGTERM'] as const).map((signal) => {
    const onSignal = () => {
      code = EXIT_OF_SIGNAL[signal]
      stop.abort(new Error('stopped'))
    }
    process.once(signal, onSignal)
    return () => process.off(signal, onSignal)
  })
  try {
    return await watch(stop.signal)
  } catch (error) {
    if (code === undefined) throw error
    output.note(`Stopped watching; ${rest}.`)
    return code
  } finally {
    for (const remove of listeners) remove()
  }
}
