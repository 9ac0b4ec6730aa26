/**
 * `switchyard explain`: gate by gate, why a ticket or a run waits, or why a run ended as it did.
 *
 * An ended run waits for nothing, so its error explains it. `--all` adds the gates between its ticket and another run.
 */

import { withAgentNames } from '../../../client/agent-names.ts'
import type { Client } from '../../../client/client.ts'
import { HostRefusal } from '../../../client/errors.ts'
import { explanationOf } from '../../../client/explanation.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { ExplainResponse, Gate } from '../../../protocol/explain.ts'
import { columnsOf, padEnd, wrapWords } from '../../output/text-width.ts'
import { EXIT, ExitError, refusedError } from '../../process/exit.ts'
import { findRun } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { nextCommands } from '../runs/runs.ts'

export interface ExplainOptions extends ClientOptions {
  readonly all?: boolean | undefined
}

const GATE_COLUMNS = 12
const MESSAGE_COLUMNS_MIN = 20
/** A cure that begins so reads wrongly behind a colon. */
const WAIT = 'wait, or'

export async function explain(context: CommandContext<ExplainOptions>, name: string): Promise<void> {
  const { output } = context
  const answer = await readExplanation(context.client, name)
  if (output.format === 'json') {
    output.json(answer)
    return
  }
  const { stdout } = output
  const answered = stdout.clean(explanationOf(answer, name))
  for (const line of stdout.isTerminal ? wrapWords(answered, stdout.width) : [answered]) output.data(line)
  const { run, gates } = answer
  if (run === undefined || !hasEnded(run)) printGates(context, gates)
  else {
    if (context.options.all === true && gates.length > 0) {
      output.data(output.stdout.clean(`Another run of ${run.ticket.identifier}:`))
      printGates(context, gates)
    }
    output.next(...nextCommands(run))
  }
}

function printGates(context: CommandContext<ExplainOptions>, gates: readonly Gate[]): void {
  const { output, options } = context
  const isWhole = options.all === true || !output.stdout.isTerminal
  const passed = gates.filter(({ status }) => status === 'pass')
  const shown = isWhole ? gates : gates.filter(({ status }) => status !== 'pass')
  for (const gate of shown) printGate(context, gate)
  if (!isWhole && passed.length > 0)
    output.data(
      output.stdout.colors.dim(
        `  pass  ${padEnd(`${passed.length} others`, GATE_COLUMNS)}(--all shows each)`,
      ),
    )
}

/** A ticket's name comes first, because only a ticket without a run has gates of its own. */
export async function readExplanation(client: Client, name: string): Promise<ExplainResponse> {
  try {
    return await client.explainTicket({ id: name })
  } catch (error) {
    if (!(error instanceof HostRefusal) || error.status !== 404) throw error
  }
  const run = await findRun(client, name).catch((error) => {
    if (!(error instanceof ExitError) || error.code !== EXIT.refused) throw error
    throw refusedError(`no run or ticket is called ${name}`, 'switchyard runs --all')
  })
  return await client.explainRun({ id: run.id })
}

function printGate({ output }: CommandContext, gate: Gate): void {
  const { id, status } = gate
  const message = withAgentNames(gate.message)
  const cure = gate.cure && output.completeCommands(gate.cure)
  const { stdout } = output
  const { colors, isTerminal, width } = stdout
  if (!isTerminal) {
    output.data([status, id, stdout.clean(message), cure ?? ''].join('\t'))
    return
  }
  const paint = status === 'stop' ? colors.stop : status === 'pass' ? colors.dim : (text: string) => text
  const indentation = `  ${' '.repeat(GATE_COLUMNS + 6)}`
  const columns = Math.max(MESSAGE_COLUMNS_MIN, width - indentation.length)
  const finding = stdout.clean(message)
  const shownCure = cure === undefined || status === 'pass' ? undefined : stdout.clean(cure)
  const both = `${finding}: ${shownCure}`
  const isInline = shownCure !== undefined && !shownCure.startsWith(WAIT) && columnsOf(both) <= columns
  const [first = '', ...more] = isInline ? [both] : wrapWords(finding, columns)
  output.data(
    `  ${paint(status)}  ${paintUnlessPlain(padEnd(id, GATE_COLUMNS) + first, status === 'pass', colors.dim)}`,
  )
  for (const line of more) output.data(`${indentation}${line}`)
  if (shownCure !== undefined && !isInline) output.data(`        ${padEnd('cure', GATE_COLUMNS)}${shownCure}`)
}

const paintUnlessPlain = (text: string, isPainted: boolean, paint: (text: string) => string): string =>
  isPainted ? paint(text) : text
