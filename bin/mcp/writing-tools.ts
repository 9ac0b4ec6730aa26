/** The tools that change something. The words of their caller are an agent's, so code hosts must not act on them. */
import { withoutControls } from '../../client/errors.ts'
import type { RunOptions } from '../../protocol/run.ts'
import { closeCode, neutralizeMarkup } from '../../worker/git/neutral-markup.ts'
import { refuseConcerns } from '../client/merge-concerns.ts'
import { findRun } from '../client/names.ts'
import { findPull, formatPull } from '../client/pull-names.ts'
import type { ToolFunctions } from './reading-tools.ts'
import { summarizeRun, summarizeTicket } from './summaries.ts'

type WritingTools =
  | `tickets_${'create' | 'start'}`
  | `runs_${'retry' | 'followup' | 'cancel'}`
  | `pulls_${'comment' | 'merge'}`

export const writingTools: ToolFunctions<WritingTools> = {
  async tickets_create({ client }, body) {
    const { ticket, run } = await client.createTicket({ body })
    return { ticket: summarizeTicket(ticket), run: run === undefined ? undefined : summarizeRun(run) }
  },

  async tickets_start({ client }, { ticket, ...options }) {
    return summarizeRun(await client.runTicket({ id: ticket, ...bodyOf(options) }))
  },

  async runs_retry({ client }, { run, ...options }) {
    const { id } = await findRun(client, run)
    return summarizeRun(await client.retryRun({ id, ...bodyOf(options) }))
  },

  async runs_followup({ client }, { run, ...options }) {
    const { id } = await findRun(client, run)
    return summarizeRun(await client.followUpRun({ id, ...bodyOf(options) }))
  },

  async runs_cancel({ client }, { run }) {
    const { id } = await findRun(client, run)
    return summarizeRun(await client.cancelRun({ id }))
  },

  async pulls_comment({ client }, { pull, body: text }) {
    const name = await findPull(client, [pull])
    const body = { body: closeCode(neutralizeMarkup(text)) }
    return { pull: formatPull(name), ...(await client.commentPull({ ...name, body })) }
  },

  async pulls_merge({ client }, { pull, ...body }) {
    const name = await findPull(client, [pull])
    // A merge over these is the word of a person.
    await refuseConcerns(client, name, withoutControls)
    return { pull: formatPull(name), ...(await client.mergePull({ ...name, body })) }
  },
}

/** A request without choices has no body. */
const bodyOf = (options: RunOptions): { readonly body?: RunOptions } =>
  Object.keys(options).length === 0 ? {} : { body: options }
