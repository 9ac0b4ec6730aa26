/** The lines of `switchyard pulls show`: the branch, checks and reviews, and what people have said. */

import { stripVTControlCharacters } from 'node:util'
import { type CheckOutcome, outcomeOfCheck } from '../../../protocol/pull-concerns.ts'
import type { PullCheck, PullDetail, PullThread } from '../../../protocol/pulls.ts'
import { shortId } from '../../output/short-names.ts'
import type { GlyphName, StyledStream } from '../../output/styled-stream.ts'
import type { TableCell } from '../../output/table.ts'
import { columnsOf, padEnd, wrapWords } from '../../output/text-width.ts'
import { formatPull } from './pull-names.ts'

const NAME_COLUMNS = 10
const REPORT_LINES = 5
/** The reviews stand beside the checks where both fit. */
const REVIEWS_COLUMN = 39

export function pullLines(stdout: StyledStream, pull: PullDetail): string[] {
  const { conversation, additions, deletions } = pull
  const heading = stdout.clean(`${formatPull(pull)}  ${pull.title}`)
  const facts: readonly (readonly [string, string])[] = [
    ...conversation.comments.map(
      ({ author, body }) => ['comment', `${author}: "${visibleText(body)}"`] as const,
    ),
    ...conversation.threads.map((thread) => ['thread', describeThread(thread)] as const),
  ]
  return [
    stdout.alignEnds(heading, `${pull.state}, +${additions} -${deletions}`),
    ...branchLines(stdout, describeBranch(pull)),
    ...checkLines(stdout, pull),
    ...pull.checks.flatMap((check) => reportLines(stdout, check)),
    ...facts.map(([name, value]) => factLine(stdout, name, value)),
  ]
}

/** Programs leave marks for themselves in HTML comments, which no page of a code host shows. */
const visibleText = (body: string): string => body.replaceAll(/<!--[\s\S]*?-->/g, '').trim()

const factLine = (stdout: StyledStream, name: string, value: string): string =>
  stdout.truncate(`${name.padEnd(NAME_COLUMNS)}${stdout.clean(value)}`)

/** Branches and ids are never cut. */
function branchLines(stdout: StyledStream, text: string): string[] {
  const clean = stdout.clean(text)
  const lines = stdout.isTerminal ? wrapWords(clean, stdout.width - NAME_COLUMNS) : [clean]
  return lines.map((line, at) => (at === 0 ? 'branch' : '').padEnd(NAME_COLUMNS) + line)
}

function describeBranch({ headBranch, baseBranch, commits, changedFiles, run }: PullDetail): string {
  const counts = `${countOf(commits.length, 'commit')}, ${countOf(changedFiles, 'file')}`
  const opened = run === undefined ? '' : `, run ${shortId(run.id)}`
  return `${headBranch} into ${baseBranch}, ${counts}${opened}`
}

const countOf = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`

/** How a thread is named on the command line, where the code host tells the line. */
export const placeOf = ({ path, line }: PullThread): string =>
  `${path}${line === undefined ? '' : `:${line}`}`

export function describeThread(thread: PullThread): string {
  const [first] = thread.comments
  const opening = first === undefined ? '' : `    ${first.author}: "${visibleText(first.body)}"`
  return `${placeOf(thread)}, ${thread.resolved ? 'resolved' : 'open'}${opening}`
}

// ---- checks and reviews --------------------------------------------------------------------------------------------

function checkLines(stdout: StyledStream, { checks, conversation }: PullDetail): string[] {
  const reviews = conversation.reviews.map(({ author, state }) => `${author} ${wordsOf(state)}`).join(', ')
  const reviewed = stdout.clean(reviews || 'none yet')
  const cells = checks.map((check) => describeCheck(stdout, check))
  if (!stdout.isTerminal) {
    const listed = cells.map(({ text }) => text).join(', ') || 'none'
    return [`checks    ${listed}`, `reviews   ${reviewed}`]
  }
  const rows = fitCells(cells, stdout.width - NAME_COLUMNS)
  const lines = rows.map(({ text }, at) => (at === 0 ? 'checks' : '').padEnd(NAME_COLUMNS) + text)
  const used = NAME_COLUMNS + (rows[0]?.columns ?? 0)
  const gap = ' '.repeat(Math.max(2, REVIEWS_COLUMN - used))
  const fits = lines.length === 1 && used + gap.length + columnsOf(`reviews  ${reviewed}`) <= stdout.width
  return fits
    ? [`${lines[0]}${gap}reviews  ${reviewed}`]
    : [...lines, stdout.truncate(`${padEnd('reviews', NAME_COLUMNS)}${reviewed}`)]
}

const wordsOf = (state: string): string => state.toLowerCase().replaceAll('_', ' ')

/** The word for how a check ended, or for where it is. */
export const outcomeOf = ({ status, conclusion }: PullCheck): string => wordsOf(conclusion ?? status)

const GLYPHS: Readonly<Record<CheckOutcome, GlyphName>> = {
  passed: 'completed',
  failed: 'failed',
  running: 'running',
  skipped: 'cancelled',
}

const glyphOf = (check: PullCheck): GlyphName =>
  check.status === 'queued' ? 'queued' : GLYPHS[outcomeOfCheck(check)]

/** A check that passed is its glyph and its name; the outcome of any other is a word. */
function describeCheck(stdout: StyledStream, check: PullCheck): Required<TableCell> {
  const name = stdout.clean(check.name)
  const { text: glyph, paint = (text: string) => text } = stdout.glyph(glyphOf(check))
  if (glyph === '') return { text: `${name} ${outcomeOf(check)}`, paint }
  const outcome = check.conclusion === 'success' ? '' : ` ${stdout.clean(outcomeOf(check))}`
  const text = `${glyph} ${name}${outcome}`
  return { text, paint: (shown) => paint(glyph) + shown.slice(glyph.length) }
}

/** The last lines of what a failed check reported. */
function reportLines(stdout: StyledStream, { name, report }: PullCheck): string[] {
  if (report === undefined) return []
  const lines = stripVTControlCharacters(report)
    .split('\n')
    .filter((line) => line.trim() !== '')
  const [first = '', ...rest] = lines.slice(-REPORT_LINES)
  return [factLine(stdout, 'report', `${name}: ${first}`), ...rest.map((line) => factLine(stdout, '', line))]
}

/** Puts as many cells into a row as fit; a name is never cut. */
function fitCells(
  cells: readonly Required<TableCell>[],
  columns: number,
): { readonly text: string; readonly columns: number }[] {
  if (cells.length === 0) return [{ text: 'none', columns: 'none'.length }]
  const rows: { text: string; columns: number }[] = []
  for (const { text, paint } of cells) {
    const own = columnsOf(text)
    const last = rows.at(-1)
    if (last === undefined || last.columns + 2 + own > columns) rows.push({ text: paint(text), columns: own })
    else {
      last.text += `  ${paint(text)}`
      last.columns += 2 + own
    }
  }
  return rows
}
