/**
 * `switchyard doctor`: checks this machine, its host or worker and their connections, and names a cure for each finding.
 *
 * The doctor needs no running host, and changes nothing but with `--fix`. The command is a program of its
 * own, because it validates the configuration, probes the sandbox and asks trackers and code hosts.
 */

import type { Output } from '../../output/output.ts'
import { ProgressLine } from '../../output/progress-line.ts'
import { shortenHome } from '../../output/short-names.ts'
import { columnsOf, padEnd, wrapWords } from '../../output/text-width.ts'
import { realClock } from '../../process/clock.ts'
import { EXIT } from '../../process/exit.ts'
import { type ClientOptions, type CommandContext, runCommand } from '../command/run-command.ts'
import { codehostCheck, trackerCheck } from './account-checks.ts'
import { agentsCheck, loginsCheck } from './agent-checks.ts'
import { refuseExisting, writeBundle } from './bundle.ts'
import { configCheck, dataCheck } from './data-checks.ts'
import {
  type AppliedFix,
  applyFixes,
  type Check,
  examine,
  type Finding,
  type FindingStatus,
  type FixableFinding,
} from './examine.ts'
import { type ExaminedMachine, examineThisMachine } from './examined-machine.ts'
import { hostCheck, portCheck, skewCheck, workersCheck } from './host-checks.ts'
import {
  clockCheck,
  diskCheck,
  gitCheck,
  leftoversCheck,
  nodeCheck,
  sandboxCheck,
  userNamespacesCheck,
} from './machine-checks.ts'

export interface DoctorOptions extends ClientOptions {
  readonly all?: boolean | undefined
  readonly fix?: boolean | undefined
  readonly bundle?: string | undefined
}

/** Every check, in the order in which the findings are printed. */
export const CHECKS: readonly Check[] = [
  sandboxCheck,
  userNamespacesCheck,
  nodeCheck,
  gitCheck,
  agentsCheck,
  loginsCheck,
  configCheck,
  hostCheck,
  portCheck,
  trackerCheck,
  codehostCheck,
  dataCheck,
  diskCheck,
  leftoversCheck,
  clockCheck,
  workersCheck,
  skewCheck,
]

/** How long a check that hangs may keep the process alive after all is printed. */
const LINGER_MS_MAX = 1_000

export async function doctor(options: DoctorOptions): Promise<void> {
  await runCommand(options, (context) => examineAndPrint(context))
  setTimeout(() => process.exit(), LINGER_MS_MAX).unref()
}

/** @param examined what the checks look at; read anew after `--fix` */
export async function examineAndPrint(
  context: CommandContext<DoctorOptions>,
  examined: (context: CommandContext) => ExaminedMachine = examineThisMachine,
): Promise<number> {
  const { options, output } = context
  if (options.bundle !== undefined) await refuseExisting(options.bundle)
  let machine = examined(context)
  try {
    let found = await examineWithProgress(context, machine)
    const fixed = options.fix === true ? await applyFixes(found) : []
    if (fixed.length > 0) {
      await machine.close()
      machine = examined(context)
      found = await examineWithProgress(context, machine)
    }
    const findings = found.map((each) => toFinding(output, each))
    const mayFix = options.fix !== true && found.some(({ fix }) => fix !== undefined)
    if (output.format === 'json') output.json({ findings, ...(options.fix === true && { fixed }) })
    else printFindings(output, { findings, fixed, isWhole: options.all === true, mayFix })
    if (options.bundle !== undefined) {
      const names = await writeBundle(options.bundle, { context, machine, findings })
      output.note(`Wrote ${options.bundle} without secrets, readable by you alone: ${names.join(', ')}`)
    }
    return findings.some(({ status }) => status === 'fail') ? EXIT.refused : EXIT.done
  } finally {
    await machine.close()
  }
}

/** A tracker that does not answer is waited for, so a person sees which check takes long. */
async function examineWithProgress(
  { output }: CommandContext,
  machine: ExaminedMachine,
): Promise<readonly FixableFinding[]> {
  const progress = new ProgressLine(output, process.env)
  progress.begin('checking')
  try {
    return await examine(machine, CHECKS, realClock, (ids) => progress.update(ids.join(', ')))
  } finally {
    progress.finish()
  }
}

const toFinding = (output: Output, { id, status, message, cure }: FixableFinding): Finding => ({
  id,
  status,
  message,
  ...(cure === undefined ? {} : { cure: output.completeCommands(cure) }),
})

// ---- printing ------------------------------------------------------------------------------------------------------

interface PrintedFindings {
  readonly findings: readonly Finding[]
  readonly fixed: readonly AppliedFix[]
  /** Findings that are in order are printed too. */
  readonly isWhole: boolean
  /** `--fix` would mend something. */
  readonly mayFix: boolean
}

const STATUS_COLUMNS = 6
const ID_COLUMNS = 11
const MESSAGE_COLUMNS_MIN = 20
const STATUSES: readonly FindingStatus[] = ['ok', 'warn', 'fail']

/** Prints findings: one line for each on a terminal, with its cure where that fits; tab-separated values elsewhere. */
function printFindings(output: Output, printed: PrintedFindings): void {
  const { findings, fixed, isWhole } = printed
  const { isTerminal } = output.stdout
  for (const { id, message } of fixed) {
    if (isTerminal)
      output.data(output.stdout.truncate(lineStart('done', id) + output.stdout.clean(shortenHome(message))))
    else output.note(`done: ${id}: ${message}`)
  }
  const isShownWhole = isWhole || !isTerminal
  const shown = isShownWhole ? findings : findings.filter(({ status }) => status !== 'ok')
  if (output.format === 'id') for (const { id } of shown) output.data(id)
  else if (isTerminal) for (const finding of shown) printFinding(output, finding)
  else printTable(output, shown)
  const summary = foldCommand(
    output,
    output.completeCommands(summarize({ ...printed, isWhole: isShownWhole })),
  )
  if (isTerminal && output.format !== 'id') output.data(summary)
  else output.note(summary)
}

function printTable(output: Output, findings: readonly Finding[]): void {
  output.table(
    [
      { heading: 'STATUS', cell: ({ status }) => status },
      { heading: 'ID', cell: ({ id }) => id },
      { heading: 'MESSAGE', cell: ({ message }) => message },
      { heading: 'CURE', cell: ({ cure }) => cure ?? '' },
    ],
    findings,
  )
}

const lineStart = (status: string, id: string): string =>
  padEnd(status, STATUS_COLUMNS) + padEnd(id, ID_COLUMNS)

function printFinding(output: Output, finding: Finding): void {
  const { stdout } = output
  const data = (text: string) => output.data(text)
  const { colors, width } = stdout
  const { status, id } = finding
  const [message, cure] = [stdout.clean(shortenHome(finding.message)), stdout.clean(finding.cure ?? '')]
  const start = lineStart(status, id)
  const whole = cure === '' ? message : `${message}: ${cure}`
  const paint = status === 'fail' ? colors.failure : status === 'ok' ? colors.dim : colors.bold
  const rest = status === 'ok' ? colors.dim : (text: string) => text
  const print = (text: string) => data(paint(status) + rest(start.slice(status.length) + text))
  if (columnsOf(start) + columnsOf(whole) <= width) {
    print(whole)
    return
  }
  const indentation = ' '.repeat(start.length)
  const wrapped = wrapWords(
    cure === '' ? message : `${message}:`,
    Math.max(MESSAGE_COLUMNS_MIN, width - start.length),
  )
  const [first = '', ...more] = wrapped
  print(first)
  for (const line of more) data(indentation + rest(line))
  // The cure stays in one piece, because people copy it.
  if (cure !== '') data(indentation + cure)
}

/** A command to copy stays in one piece: in a line of its own where the whole is too long. */
function foldCommand({ stdout }: Output, text: string): string {
  if (!stdout.isTerminal || columnsOf(text) <= stdout.width) return text
  return text.replace(': switchyard', ':\n  switchyard')
}

function summarize({ findings, isWhole, mayFix }: PrintedFindings): string {
  const counts = STATUSES.map((status) => ({
    status,
    count: findings.filter((finding) => finding.status === status).length,
  }))
  const text = counts
    .filter(({ count }) => count > 0)
    .map(({ status, count }) => `${count} ${status}`)
    .join(', ')
  if (mayFix) return `${text}. What can be mended safely: switchyard doctor --fix`
  return isWhole || findings.some(({ status }) => status !== 'ok')
    ? `${text}.`
    : `${text}. Each of them: switchyard doctor --all`
}
