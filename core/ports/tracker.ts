/**
 * The port of the tracker: its tickets, read and moved. `providers/tracker/` implements it, one folder for each service.
 */
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import type { Ticket } from '../../protocol/run.ts'
import type { TrackerProject } from '../../protocol/tracker.ts'
import type { Result } from '../result.ts'
import type { Cancel } from './clock.ts'

/** A ticket as its tracker reports it. Where a service has no time of creation, the ticket has that of its last change. */
export interface TrackedTicket {
  readonly ticket: Ticket
  /** The ticket is done or abandoned, so it no longer blocks other tickets. */
  readonly closed: boolean
  /**
   * Further names that an eligibility rule may use for the assignee or the project, such as an e-mail address or an
   * id.
   */
  readonly aliases?: { readonly assignee: readonly string[]; readonly project: readonly string[] }
}

export interface TrackerListing {
  /** Each ticket once. A tracker that keeps unchanged objects, and their order, saves its callers work. */
  readonly tickets: readonly TrackedTicket[]
  /** A sentence for each ticket that could not be read. The tickets in the list are valid all the same. */
  readonly problems: readonly string[]
}

/** The tickets that a poll must return. */
export interface TrackerQuery {
  readonly rules: ServiceConfig['tracker']['eligible']
  /** Ids of tickets with an active run. The tracker returns these whatever their state is. */
  readonly tickets: readonly string[]
}

/** A ticket that a person has the host create. Names are those of the configuration. */
export interface NewTicket {
  readonly title: string
  readonly description: string
  readonly priority: Ticket['priority']
  readonly labels: readonly string[]
  /** The repository that the person named. */
  readonly repo?: { readonly key: string; readonly mapping: RepoMapping }
  /** All mappings, among which labels and project of the ticket choose. */
  readonly repos: ServiceConfig['repos']
  readonly rules: TrackerQuery['rules']
  /** Whether the rules are to hold for the ticket or not. */
  readonly isEligible: boolean
}

/** The text holds the key, by which the tracker finds out whether the comment is there. */
export interface TicketComment {
  readonly key: string
  readonly text: string
}

export interface PullLink {
  readonly url: string
  readonly title: string
}

/** The tracker of the current configuration. */
export interface Tracker {
  /**
   * Returns every ticket that is or could become eligible, and the tickets that the query names. Refuses with
   * `unauthorized` when the tracker rejects the credential; every other refusal is temporary. Refuses also when a part
   * could not be read: a ticket of the query that is left out counts as taken back by a person.
   */
  listTickets(query: TrackerQuery): Promise<Result<TrackerListing>>
  /**
   * Calls `onChange` (debounced) whenever tickets may have changed. Some trackers cannot report changes and never
   * call it.
   */
  watch(onChange: () => void): Cancel
  /**
   * Moves a ticket to a state. When `from` is given and a person moved the ticket to a state outside it, the ticket
   * stays and the refusal is permanent. Without `from`, a closed ticket stays closed. Refusals of the kinds `unknown`,
   * `gone`, `invalid` and `forbidden` end the move; any other is retried.
   */
  moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>>
  /**
   * Creates a ticket in one step, so that it is complete from the moment in which a poll can see it. Absent when the
   * tracker cannot create tickets. A refusal of the kind `invalid` is about the request; the ticket does not exist.
   */
  createTicket?(ticket: NewTicket): Promise<Result<TrackedTicket>>
  /** Adds a link to the ticket; a repeated call changes nothing. Absent when the tracker has no links. */
  linkPull?(ticketId: string, link: PullLink): Promise<Result<void>>
  /** Comments on the ticket; a repeated call changes nothing. Absent when the tracker has no comments, or none to read. */
  comment?(ticketId: string, comment: TicketComment): Promise<Result<void>>
  /** Lists the projects that a person can choose from in the eligibility rules. */
  projects(): Promise<Result<readonly TrackerProject[]>>
}
