/** Watching: what goes on until Ctrl-C, which ends the watching alone. */
import type { CommandContext } from './run-command.ts'

/** The exit codes that shells use for programs ended by a signal. */
const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143 } as const

/** @param rest the sentence about what goes on: `ENG-231 goes on` */
export async function whileWatching(
  { output }: Pick<CommandContext, 'output'>,
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
