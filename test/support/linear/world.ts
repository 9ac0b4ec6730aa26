/**
 * What is in the fake's workspace: people, teams, states, projects, labels, issues and what hangs on them.
 *
 * A row carries the names of the schema, so that answers and filters read the same thing; what follows from other rows
 * (an issue's blockers) is a getter. Only what a person would see as a change moves `updatedAt`: a blocker that is
 * finished, a comment or a link leaves the issue's own instant alone, which is what a poller must cope with.
 */
import { createHash } from 'node:crypto'

export interface Row {
  readonly id: string
  readonly createdAt: number
  updatedAt: number
  archivedAt: number | null
}

export interface UserRow extends Row {
  readonly name: string
  readonly displayName: string
  readonly email: string
  readonly active: boolean
  readonly app: boolean
  readonly url: string
}

export interface StateRow extends Row {
  readonly name: string
  readonly type: string
  readonly position: number
  readonly color: string
  readonly team: TeamRow
}

export interface LabelRow extends Row {
  readonly name: string
  readonly team: TeamRow | null
}

export interface TeamRow extends Row {
  readonly key: string
  readonly name: string
  readonly displayName: string
  readonly states: StateRow[]
}

export interface ProjectRow extends Row {
  name: string
  readonly slugId: string
  readonly url: string
  readonly color: string
  readonly icon: string | null
  readonly status: { readonly id: string; readonly name: string; readonly type: string }
  readonly lead: UserRow | null
  readonly teams: TeamRow[]
}

export interface CommentRow extends Row {
  readonly issue: IssueRow
  readonly body: string
  readonly user: UserRow | null
  readonly url: string
}

export interface AttachmentRow extends Row {
  readonly issue: IssueRow
  readonly url: string
  title: string
  subtitle: string | null
  metadata: object
  readonly creator: UserRow | null
}

export interface RelationRow extends Row {
  readonly type: string
  readonly issue: IssueRow
  readonly relatedIssue: IssueRow
}

/** What of an issue can change. */
export interface IssueFields {
  title: string
  description: string | null
  priority: number
  estimate: number | null
  sortOrder: number
  dueDate: string | null
  state: StateRow
  assignee: UserRow | null
  delegate: UserRow | null
  project: ProjectRow | null
  parent: IssueRow | null
  labels: LabelRow[]
}

export interface IssueRow extends Row, IssueFields {
  readonly number: number
  readonly identifier: string
  readonly url: string
  readonly branchName: string
  readonly team: TeamRow
  readonly creator: UserRow | null
  startedAt: number | null
  completedAt: number | null
  canceledAt: number | null
}

export interface TeamWish {
  readonly key: string
  readonly name?: string
  /** In order of position. */
  readonly states?: readonly { readonly name: string; readonly type: string }[]
}

export interface UserWish {
  readonly name: string
  readonly displayName?: string
  readonly email?: string
  readonly app?: boolean
}

export interface ProjectWish {
  readonly name: string
  readonly teams?: readonly TeamRow[]
  readonly status?: { readonly name: string; readonly type: string }
  readonly lead?: UserRow
}

/** A state by its name; labels by theirs, made when there are none. */
export interface IssueWish
  extends Partial<Pick<IssueFields, 'description' | 'priority' | 'assignee' | 'project' | 'parent'>> {
  readonly title: string
  readonly team?: TeamRow
  readonly state?: string
  readonly labels?: readonly string[]
  readonly blockedBy?: readonly IssueRow[]
}

export type IssueChange = Partial<Omit<IssueFields, 'state' | 'labels'>> & {
  readonly state?: string
  readonly labels?: readonly string[]
}

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
const PRIORITY_LABELS = ['No priority', 'Urgent', 'High', 'Medium', 'Low']
const BRANCH_SLUG_MAX = 60

export class World {
  readonly users: UserRow[] = []
  readonly teams: TeamRow[] = []
  readonly issueLabels: LabelRow[] = []
  readonly projects: ProjectRow[] = []
  readonly issues: IssueRow[] = []
  readonly comments: CommentRow[] = []
  readonly attachments: AttachmentRow[] = []
  readonly relations: RelationRow[] = []
  readonly organization: Row & { readonly name: string; readonly urlKey: string }
  readonly #now: () => number
  #rows = 0

  constructor(now: () => number, organization: { name: string; urlKey: string }) {
    this.#now = now
    this.organization = { ...this.#row(), ...organization }
  }

  get workflowStates(): StateRow[] {
    return this.teams.flatMap(({ states }) => states)
  }

  user(wish: UserWish): UserRow {
    const displayName = wish.displayName ?? wish.name.toLowerCase().replaceAll(' ', '.')
    const email = wish.email ?? `${displayName}@${this.organization.urlKey}.example`
    const url = this.#url(`profiles/${displayName}`)
    const row = {
      ...this.#row(),
      name: wish.name,
      displayName,
      email,
      url,
      active: true,
      app: wish.app ?? false,
    }
    return kept(this.users, row)
  }

  team({ key, name = key, states = STATES }: TeamWish): TeamRow {
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
  }: ProjectWish) {
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

  issue(wish: IssueWish): IssueRow {
    const team = wish.team ?? this.teams[0] ?? this.team({ key: 'ENG', name: 'Engineering' })
    const issue = kept(this.issues, this.#newIssue(wish, team))
    for (const blocker of wish.blockedBy ?? []) this.blocks(blocker, issue)
    return issue
  }

  blocks(blocker: IssueRow, blocked: IssueRow): RelationRow {
    return this.relate('blocks', blocker, blocked)
  }

  relate(type: string, issue: IssueRow, relatedIssue: IssueRow): RelationRow {
    return kept(this.relations, { ...this.#row(), type, issue, relatedIssue })
  }

  /** As somebody in Linear would change it. */
  change(issue: IssueRow, { state, labels, ...fields }: IssueChange): void {
    if (state !== undefined) this.move(issue, stateNamed(issue.team, state))
    if (labels !== undefined) issue.labels = labels.map((name) => this.#labelNamed(name))
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

  archive(row: Row): void {
    row.archivedAt = this.#now()
    this.touch(row)
  }

  /** Gone for good, and everything that hung on it. */
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

  /** The same address on the same issue is the same attachment. */
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

  touch(row: Row): void {
    row.updatedAt = this.#now()
  }

  issueOf(idOrIdentifier: string): IssueRow | undefined {
    const wanted = idOrIdentifier.toUpperCase()
    return this.issues.find(({ id, identifier }) => id === idOrIdentifier || identifier === wanted)
  }

  #newIssue(wish: IssueWish, team: TeamRow): IssueRow {
    const number = 1 + this.issues.filter((other) => other.team === team).length
    const identifier = `${team.key}-${number}`
    const world = this
    return {
      ...this.#row(),
      number,
      identifier,
      team,
      title: wish.title,
      description: wish.description ?? null,
      priority: wish.priority ?? 0,
      estimate: null,
      sortOrder: -number,
      dueDate: null,
      url: this.#url(`issue/${identifier}/${slug(wish.title)}`),
      branchName: `${slug(`${identifier} ${wish.title}`)}`,
      state: wish.state === undefined ? firstOf(team, 'unstarted') : stateNamed(team, wish.state),
      assignee: wish.assignee ?? null,
      delegate: null,
      creator: this.users[0] ?? null,
      project: wish.project ?? null,
      parent: wish.parent ?? null,
      labels: (wish.labels ?? []).map((name) => this.#labelNamed(name)),
      startedAt: null,
      completedAt: null,
      canceledAt: null,
      get priorityLabel() {
        return PRIORITY_LABELS[this.priority] ?? ''
      },
      get labelIds() {
        return this.labels.map(({ id }) => id)
      },
      get children() {
        return world.issues.filter(({ parent }) => parent === this)
      },
      get relations() {
        return world.relations.filter(({ issue }) => issue === this)
      },
      get inverseRelations() {
        return world.relations.filter(({ relatedIssue }) => relatedIssue === this)
      },
      get comments() {
        return world.comments.filter(({ issue }) => issue === this)
      },
      get attachments() {
        return world.attachments.filter(({ issue }) => issue === this)
      },
    } as IssueRow // the getters are for the schema, nobody reads them by type
  }

  #labelNamed(name: string): LabelRow {
    return this.issueLabels.find((label) => label.name === name) ?? this.label(name)
  }

  #row(): Row {
    const at = this.#now()
    return { id: uuid(this.#rows++), createdAt: at, updatedAt: at, archivedAt: null }
  }

  #url(path: string): string {
    return `https://linear.app/${this.organization.urlKey}/${path}`
  }
}

export function stateNamed(team: TeamRow, name: string): StateRow {
  const state = team.states.find((one) => one.name === name)
  if (state === undefined) throw new Error(`${team.key} has no state ${name}`)
  return state
}

function firstOf(team: TeamRow, type: string): StateRow {
  const state = team.states.find((one) => one.type === type) ?? team.states[0]
  if (state === undefined) throw new Error(`${team.key} has no states`)
  return state
}

/** The same in every run, and as random to look at as a real one. */
function uuid(count: number): string {
  const hex = createHash('sha256').update(`row ${count}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

function slug(text: string): string {
  const words = text.toLowerCase().replace(/[^a-z0-9]+/g, '-')
  return words.slice(0, BRANCH_SLUG_MAX).replace(/^-|-$/g, '')
}

function kept<T>(rows: T[], row: T): T {
  rows.push(row)
  return row
}

function dropped<T>(rows: T[], isOut: (row: T) => boolean): void {
  rows.splice(0, rows.length, ...rows.filter((row) => !isOut(row)))
}
