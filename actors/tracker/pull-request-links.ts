/**
 * PullRequestLinks links each pull request in the ticket that it is for.
 *
 * The links are durable tasks, so a restart or an outage of the tracker loses none. Linking a pull request twice has
 * the effect of linking it once.
 */
import type { PullLink } from '../../core/ports.ts'
import { type RefusalKind, yes } from '../../core/result.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'
import { type DurableTaskPorts, DurableTasks } from '../runtime/durable-tasks.ts'
import type { TrackerConnection } from './tracker-connection.ts'

interface PullRequestLinkTask extends PullLink {
  readonly ticketId: string
}

export interface PullRequestLinksPorts
  extends Omit<
    DurableTaskPorts<PullRequestLinkTask>,
    'prefix' | 'attempt' | 'attemptsMax' | 'unreachable' | 'onGivenUp'
  > {
  readonly ask: TrackerConnection['ask']
}

const ATTEMPTS_MAX = 50
/** These refusals do not count as attempts: days may pass before a person connects the tracker again. */
const UNREACHABLE = new Set<RefusalKind>(['unavailable', 'unauthorized'])

export class PullRequestLinks extends DurableTasks<PullRequestLinkTask> {
  constructor(ports: PullRequestLinksPorts) {
    super({
      ...ports,
      prefix: 'link/',
      attemptsMax: ATTEMPTS_MAX,
      unreachableKinds: UNREACHABLE,
      attempt: (_, { ticketId, url, title }) =>
        ports.ask(async (tracker) => (await tracker.linkPull?.(ticketId, { url, title })) ?? yes(undefined)),
      onGivenUp: (_, { ticketId, url }, reason) =>
        ports.log.warn({ ticketId, url, reason }, 'linking a pull request in its ticket failed for good'),
    })
  }

  addLink({ id, title }: Ticket, url: string): void {
    this.add(id, { ticketId: id, url, title: `Pull request: ${title}`.slice(0, TEXT_CHARS_MAX) })
  }
}
