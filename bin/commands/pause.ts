/** `switchyard pause` and `switchyard resume`. */
import type { CommandContext } from '../client/run-command.ts'

export async function pause({ client, output }: CommandContext): Promise<void> {
  const answer = await client.pauseDispatch()
  if (output.format === 'json') output.json(answer)
  else output.data('paused: nothing is dispatched, running work goes on')
  output.next('switchyard resume')
}

/** On a terminal it says first what starts. */
export async function resume(context: CommandContext): Promise<number | undefined> {
  const { client, output, questions, options } = context
  if (questions.mayAsk && options.yes !== true && output.format !== 'json') {
    const waiting = await client.listRuns({ status: ['queued'], limit: NAMED_MAX + 1 })
    if (
      waiting.length > 0 &&
      !(await questions.confirm(question(waiting.map(({ ticket }) => ticket.identifier)), true))
    ) {
      output.note('Nothing was changed.')
      return undefined
    }
  }
  const answer = await client.resumeDispatch()
  if (output.format === 'json') output.json(answer)
  else output.data('resumed: queued runs are dispatched')
  return undefined
}

/** So many runs are named in the question. */
const NAMED_MAX = 10

function question(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).join(', ')
  if (names.length > NAMED_MAX) return `${shown} and more may start. Go on?`
  return `${names.length} ${names.length === 1 ? 'run starts' : 'runs start'}: ${shown}. Go on?`
}
