/**
 * Reads the checks of a commit, and what the failed ones reported.
 *
 * A report is what the check wrote about itself, else its annotations: a job of GitHub Actions writes only those. The
 * log of a job is not read, because GitHub sends it from another host.
 */
import { CHECK_REPORT_CHARS_MAX } from '../../../protocol/limits.ts'
import { outcomeOfCheck } from '../../../protocol/pull-checks.ts'
import type { PullCheck } from '../../../protocol/pulls.ts'
import { PAGE_ITEMS_MAX } from './api.ts'
import type { PullReadContext } from './detail.ts'
import { asCount, asLink, asText, readField } from './fields.ts'
import { toRecords } from './records.ts'

const CHECKS_LISTED_MAX = 500
/** Each one with annotations takes a request of its own. */
const ANNOTATED_CHECKS_MAX = 5
const ANNOTATIONS_MAX = 50
/** Failed checks beyond it are shown without a report. */
const REPORTS_MAX = 20
const RAW_REPORT_CHARS_MAX = 128 * 1024
const CHECK_STATES = new Set(['queued', 'in_progress', 'completed'])
const SHA = /^[0-9a-f]{40,64}$/

export interface PullChecks {
  readonly checks: PullCheck[]
  readonly checksLookupFailed?: true
}

/** A token may lack access to check runs or statuses; the other kind is still shown. */
export async function readChecks(context: PullReadContext, pull: unknown): Promise<PullChecks> {
  const { api, repo, subject } = context
  const sha = asText(readField(pull, 'head', 'sha'))
  if (!SHA.test(sha)) return { checks: [], checksLookupFailed: true }
  const commitPath = `${repo}/commits/${sha}`
  const listed = (path: string, at: string) =>
    api.list(`${commitPath}/${path}per_page=${PAGE_ITEMS_MAX}`, {
      subject,
      urgency: 'person',
      pagesMax: CHECKS_LISTED_MAX / PAGE_ITEMS_MAX,
      listField: at,
    })
  const [runs, statuses] = await Promise.all([
    listed('check-runs?filter=latest&', 'check_runs'),
    listed('status?', 'statuses'),
  ])
  const reports = runs.ok ? await readReports(context, runs.value.items) : new Map<unknown, string>()
  const checks = [
    ...(runs.ok ? toRecords(runs.value.items, (run) => toCheckFromRun(run, reports.get(run))) : []),
    ...(statuses.ok ? toRecords(statuses.value.items, toCheckFromStatus) : []),
  ]
  const isComplete = [runs, statuses].every((read) => read.ok && !read.value.hasMore)
  return isComplete ? { checks } : { checks, checksLookupFailed: true }
}

/** States such as `waiting` or `pending` count as `queued`. */
function toCheckFromRun(run: unknown, report: string | undefined): PullCheck | undefined {
  const name = asText(readField(run, 'name'))
  if (name === '') return undefined
  const status = asText(readField(run, 'status'))
  const conclusion = asText(readField(run, 'conclusion'))
  const url = asLink(readField(run, 'html_url')) ?? asLink(readField(run, 'details_url'))
  return {
    name,
    // The set holds exactly the states of the type.
    status: CHECK_STATES.has(status) ? (status as PullCheck['status']) : 'queued',
    ...(conclusion === '' ? {} : { conclusion }),
    ...(url === undefined ? {} : { url }),
    source: 'check-run',
    ...(report === undefined ? {} : { report }),
  }
}

/** Reads single statuses only: the combined state is `pending` even without any status. */
function toCheckFromStatus(status: unknown): PullCheck | undefined {
  const name = asText(readField(status, 'context'))
  const state = asText(readField(status, 'state'))
  if (name === '' || state === '') return undefined
  const url = asLink(readField(status, 'target_url'))
  const check: PullCheck = {
    name,
    ...(state === 'pending' ? { status: 'in_progress' } : { status: 'completed', conclusion: state }),
    ...(url === undefined ? {} : { url }),
    source: 'status',
  }
  const report = asText(readField(status, 'description')).trim()
  return outcomeOfCheck(check) === 'failed' && report !== '' ? { ...check, report } : check
}

// ---- reports --------------------------------------------------------------------------------------------------------

/** The reports of the failed check runs, by check run. */
async function readReports(
  context: PullReadContext,
  runs: readonly unknown[],
): Promise<Map<unknown, string>> {
  const failed = toRecords(runs, (run) => {
    const check = toCheckFromRun(run, undefined)
    return check !== undefined && outcomeOfCheck(check) === 'failed' ? run : undefined
  }).slice(0, REPORTS_MAX)
  const reports = new Map<unknown, string>()
  const annotated: unknown[] = []
  for (const run of failed) {
    const own = ownReport(run)
    if (own !== '') reports.set(run, own)
    else if (asCount(readField(run, 'output', 'annotations_count')) > 0) annotated.push(run)
  }
  const read = annotated.slice(0, ANNOTATED_CHECKS_MAX).map(async (run) => {
    const report = await readAnnotations(context, asCount(readField(run, 'id')))
    if (report !== '') reports.set(run, report)
  })
  await Promise.all(read)
  return reports
}

function ownReport(run: unknown): string {
  const parts = ['title', 'summary', 'text'].map((part) =>
    asText(readField(run, 'output', part), RAW_REPORT_CHARS_MAX).trim(),
  )
  return endOf(parts.filter((part) => part !== '').join('\n\n'))
}

/** Empty when they can't be read: a check without its report is still a check. */
async function readAnnotations({ api, repo, subject }: PullReadContext, id: number): Promise<string> {
  const path = `${repo}/check-runs/${id}/annotations?per_page=${ANNOTATIONS_MAX}`
  const listed = await api.list(path, { subject, urgency: 'person', pagesMax: 1 })
  if (!listed.ok) return ''
  return endOf(listed.value.items.map(annotationLine).filter(Boolean).join('\n'))
}

/** `src/a.ts:12: Expected 1, got 2`. A job as a whole is annotated at a folder of GitHub's own. */
function annotationLine(annotation: unknown): string {
  const path = asText(readField(annotation, 'path'))
  const line = asCount(readField(annotation, 'start_line'))
  const message = asText(readField(annotation, 'message'), RAW_REPORT_CHARS_MAX).trim()
  const isOfFile = path !== '' && !path.startsWith('.github')
  return isOfFile ? `${path}:${line}: ${message}` : message
}

/** The end says why a check failed; a cut begins with a whole line where there is one. */
function endOf(report: string): string {
  if (report.length <= CHECK_REPORT_CHARS_MAX) return report
  const end = report.slice(-CHECK_REPORT_CHARS_MAX)
  return end.slice(end.indexOf('\n') + 1).replace(/^\p{Cs}/u, '')
}
