/**
 * Rows of the fake's workspace, and options to create them. Rows use the schema's names, so replies and filters read
 * the same fields.
 */
export interface LinearRow {
  readonly id: string
  readonly createdAt: number
  updatedAt: number
  archivedAt: number | null
}

export interface UserRow extends LinearRow {
  readonly name: string
  readonly displayName: string
  readonly email: string
  readonly active: boolean
  readonly app: boolean
  readonly url: string
}

export interface StateRow extends LinearRow {
  readonly name: string
  readonly type: string
  readonly position: number
  readonly color: string
  readonly team: TeamRow
}

export interface LabelRow extends LinearRow {
  readonly name: string
  readonly team: TeamRow | null
}

export interface TeamRow extends LinearRow {
  readonly key: string
  readonly name: string
  readonly displayName: string
  readonly states: StateRow[]
}

export interface ProjectRow extends LinearRow {
  name: string
  readonly slugId: string
  readonly url: string
  readonly color: string
  readonly icon: string | null
  readonly status: { readonly id: string; readonly name: string; readonly type: string }
  readonly lead: UserRow | null
  readonly teams: TeamRow[]
}

export interface CommentRow extends LinearRow {
  readonly issue: IssueRow
  readonly body: string
  readonly user: UserRow | null
  readonly url: string
}

export interface AttachmentRow extends LinearRow {
  readonly issue: IssueRow
  readonly url: string
  title: string
  subtitle: string | null
  metadata: object
  readonly creator: UserRow | null
}

export interface RelationRow extends LinearRow {
  readonly type: string
  readonly issue: IssueRow
  readonly relatedIssue: IssueRow
}

/** Fields of an issue that can change. */
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

export interface IssueRow extends LinearRow, IssueFields {
  readonly number: number
  readonly identifier: string
  readonly url: string
  readonly branchName: string
  readonly team: TeamRow
  readonly creator: UserRow | null
  startedAt: number | null
  completedAt: number | null
  canceledAt: number | null
  /** Null unless the issue was deleted. */
  trashed: true | null
}

export interface TeamOptions {
  readonly key: string
  readonly name?: string
  /** Sorted by position. */
  readonly states?: readonly { readonly name: string; readonly type: string }[]
}

export interface UserOptions {
  readonly name: string
  readonly displayName?: string
  readonly email?: string
  readonly app?: boolean
}

export interface ProjectOptions {
  readonly name: string
  readonly teams?: readonly TeamRow[]
  readonly status?: { readonly name: string; readonly type: string }
  readonly lead?: UserRow
}

/** States and labels by name; missing labels are created. */
export interface IssueOptions
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
