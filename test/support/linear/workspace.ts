/**
 * Workspace of the fake: people, teams, states, projects, labels, issues and their links.
 *
 * Only changes that a person would see update `updatedAt`. A closed blocker, a comment or a link leaves it unchanged,
 * which pollers must handle.
 */
import { issueRow } from './issue-row.ts'
import { slug, uuid } from './naming.ts'
import type {
  AttachmentRow,
  CommentRow,
  IssueChange,
  IssueOptions,
  IssueRow,
  LabelRow,
  LinearRow,
  ProjectOptions,
  ProjectRow,
  RelationRow,
  StateRow,
  TeamOptions,
  TeamRow,
  UserOptions,
  UserRow,
} from './rows.ts'

const STATES = [
  { name: 'Triage', type: 'triage' },
  { name: 'Backlog', type: 'backlog' },
  { name: 'Todo', type: 'unstarted' },
  { name: 'In Progress', type: 'started' },
  { name: 'In Review', type: 'started' },
  { name: 'Done', type: 'completed' },
  { name: 'Canceled', type: 'canceled' },
  { name: 'Duplicate', type: 'duplicate' },
]

export class LinearWorkspace {
  readonly users: UserRow[] = []
  readonly teams: TeamRow[] = []
  readonly issueLabels: LabelRow[] = []
  readonly projects: ProjectRow[] = []
  readonly issues: IssueRow[] = []
  readonly comments: CommentRow[] = []
  readonly attachments: AttachmentRow[] = []
  readonly relations: RelationRow[] = []
  readonly organization: LinearRow & { readonly name: string; readonly urlKey: string }
  readonly #now: () => number
  /** Last used number; numbers are not reused after an issue is deleted. */
  readonly #numbers = new Map<TeamRow, number>()
  #rows = 0

  constructor(now: () => number, organization: { name: string; urlKey: string }) {
    this.#now = now
    this.organization = { ...this.#row(), ...organization }
  }

  get workflowStates(): StateRow[] {
    return this.teams.flatMap(({ states }) => states)
  }

  user(options: UserOptions): UserRow {
    const displayName = options.displayName ?? options.name.toLowerCase().replaceAll(' ', '.')
    const email = options.email ?? `${displayName}@${this.organization.urlKey}.example`
    const url = this.#url(`profiles/${displayName}`)
    const row = {
      ...this.#row(),
      name: options.name,
      displayName,
      email,
      url,
      active: true,
      app: options.app ?? false,
    }
    return kept(this.users, row)
  }

  team({ key, name = key, states = STATES }: TeamOptions): TeamRow {
    const team: TeamRow = { ...this.#row(), key, name, displayName: name, states: [] }
    for (const [position, state] of states.entries())
      team.states.push({ ...this.#row(), ...state, position, color: '#bec2c8', team })
    return kept(this.teams, team)
  }

  label(name: string, team: TeamRow | null = null): LabelRow {
    return kept(this.issueLabels, { ...this.#row(), name, team })
  }

  project({
    name,
    teams = this.teams,
    status = { name: 'In Progress', type: 'started' },
    lead,
  }: ProjectOptions) {
    const row = this.#row()
    const slugId = row.id.replaceAll('-', '').slice(0, 12)
    const url = this.#url(`project/${slug(name)}-${slugId}`)
    const project: ProjectRow = {
      ...row,
      name,
      slugId,
      url,
      color: '#5e6ad2',
      icon: null,
      status: { id: this.#row().id, ...status },
      lead: lead ?? null,
      teams: [...teams],
    }
    return kept(this.projects, project)
  }

  issue(options: IssueOptions): IssueRow {
    const team = options.team ?? this.teams[0] ?? this.team({ key: 'ENG', name: 'Engineering' })
    const { state: stateName, labels = [], blockedBy = [], team: _, ...fields } = options
    const state = stateName === undefined ? firstOf(team, 'unstarted') : stateNamed(team, stateName)
    const number = (this.#numbers.get(team) ?? 0) + 1
    this.#numbers.set(team, number)
    const makings = { ...fields, row: this.#row(), team, number, state, labels: labels.map(this.#labelNamed) }
    const place = { base: this.#url('issue'), creator: this.users[0] ?? null }
    const issue = kept(this.issues, issueRow({ ...makings, ...place }, this))
    for (const blocker of blockedBy) this.blocks(blocker, issue)
    return issue
  }

  blocks(blocker: IssueRow, blocked: IssueRow): RelationRow {
    return this.relate('blocks', blocker, blocked)
  }

  relate(type: string, issue: IssueRow, relatedIssue: IssueRow): RelationRow {
    return kept(this.relations, { ...this.#row(), type, issue, relatedIssue })
  }

  /** Changes an issue as a person would. */
  change(issue: IssueRow, { state, labels, ...fields }: IssueChange): void {
    if (state !== undefined) this.move(issue, stateNamed(issue.team, state))
    if (labels !== undefined) issue.labels = labels.map(this.#labelNamed)
    Object.assign(issue, fields)
    this.touch(issue)
  }

  move(issue: IssueRow, state: StateRow): void {
    issue.state = state
    if (state.type === 'started') issue.startedAt ??= this.#now()
    issue.completedAt = state.type === 'completed' ? this.#now() : null
    issue.canceledAt = ['canceled', 'duplicate'].includes(state.type) ? this.#now() : null
    this.touch(issue)
  }

  archive(row: LinearRow): void {
    row.archivedAt = this.#now()
    this.touch(row)
  }

  /** Deletes as Linear does: removed from lists, readable by id for a while. */
  trash(issue: IssueRow): void {
    issue.trashed = true
    this.archive(issue)
  }

  /** Deletes permanently, with everything attached. */
  remove(issue: IssueRow): void {
    dropped(this.issues, (row) => row === issue)
    dropped(this.comments, (row) => row.issue === issue)
    dropped(this.attachments, (row) => row.issue === issue)
    dropped(this.relations, (row) => row.issue === issue || row.relatedIssue === issue)
  }

  comment(issue: IssueRow, body: string, user: UserRow | null): CommentRow {
    const row = this.#row()
    return kept(this.comments, {
      ...row,
      issue,
      body,
      user,
      url: `${issue.url}#comment-${row.id.slice(0, 8)}`,
    })
  }

  /** A URL occurs once per issue. */
  attach(
    issue: IssueRow,
    fields: Pick<AttachmentRow, 'url' | 'title' | 'subtitle' | 'metadata' | 'creator'>,
  ): AttachmentRow {
    const known = this.attachments.find((row) => row.issue === issue && row.url === fields.url)
    if (known === undefined) return kept(this.attachments, { ...this.#row(), issue, ...fields })
    const { title, subtitle, metadata } = fields
    Object.assign(known, { title, subtitle, metadata })
    this.touch(known)
    return known
  }

  touch(row: LinearRow): void {
    row.updatedAt = this.#now()
  }

  issueOf(idOrIdentifier: string): IssueRow | undefined {
    const wanted = idOrIdentifier.toUpperCase()
    return this.issues.find(({ id, identifier }) => id === idOrIdentifier || identifier === wanted)
  }

  #labelNamed = (name: string): LabelRow =>
    this.issueLabels.find((label) => label.name === name) ?? this.label(name)

  #row(): LinearRow {
    const at = this.#now()
    return { id: uuid(this.#rows++), createdAt: at, updatedAt: at, archivedAt: null }
  }

  #url(path: string): string {
    return `https://linear.app/${this.organization.urlKey}/${path}`
  }
}

function stateNamed(team: TeamRow, name: string): StateRow {
  const state = team.states.find((candidate) => candidate.name === name)
  if (state === undefined) throw new Error(`${team.key} has no state ${name}`)
  return state
}

function firstOf(team: TeamRow, type: string): StateRow {
  const state = team.states.find((candidate) => candidate.type === type) ?? team.states[0]
  if (state === undefined) throw new Error(`${team.key} has no states`)
  return state
}

function kept<T>(rows: T[], row: T): T {
  rows.push(row)
  return row
}

function dropped<T>(rows: T[], isOut: (row: T) => boolean): void {
  rows.splice(0, rows.length, ...rows.filter((row) => !isOut(row)))
}
