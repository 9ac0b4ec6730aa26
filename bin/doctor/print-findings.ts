/** Prints findings: one line for each on a terminal, with its cure where that fits; tab-separated values elsewhere. */
import type { Output } from '../output/output.ts'
import { shortenHome } from '../output/short-paths.ts'
import { columnsOf, padEnd, wrapWords } from '../output/text-width.ts'
import type { Finding, FindingStatus } from './finding.ts'
import type { AppliedFix } from './fixes.ts'

export interface PrintedFindings {
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

export function printFindings(output: Output, printed: PrintedFindings): void {
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
