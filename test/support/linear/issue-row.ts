/** Creates the row of an issue, including values derived from other rows. */
import { slug } from './naming.ts'
import type {
  AttachmentRow,
  CommentRow,
  IssueFields,
  IssueRow,
  LinearRow,
  RelationRow,
  TeamRow,
  UserRow,
} from './rows.ts'

type RequiredIssueFields = 'title' | 'state' | 'labels'

export interface IssueRowInput
  extends Pick<IssueFields, RequiredIssueFields>,
    Partial<Omit<IssueFields, RequiredIssueFields>> {
  readonly row: LinearRow
  readonly team: TeamRow
  readonly number: number
  readonly creator: UserRow | null
  /** Address of its page, without the identifier. */
  readonly base: string
}

interface Others {
  readonly issues: readonly IssueRow[]
  readonly relations: readonly RelationRow[]
  readonly comments: readonly CommentRow[]
  readonly attachments: readonly AttachmentRow[]
}

const PRIORITY_LABELS = ['No priority', 'Urgent', 'High', 'Medium', 'Low']
const PLAIN = {
  description: null,
  priority: 0,
  estimate: null,
  dueDate: null,
  assignee: null,
  delegate: null,
  project: null,
  parent: null,
  trashed: null,
  startedAt: null,
  completedAt: null,
  canceledAt: null,
}

export function issueRow({ row, base, ...makings }: IssueRowInput, others: Others): IssueRow {
  const { team, number, title } = makings
  const identifier = `${team.key}-${number}`
  const issue: IssueRow = {
    ...PLAIN,
    ...row,
    sortOrder: -number,
    ...makings,
    identifier,
    url: `${base}/${identifier}/${slug(title)}`,
    branchName: slug(`${identifier} ${title}`),
  }
  return Object.defineProperties(issue, derivedOf(issue, others))
}

function derivedOf(issue: IssueRow, others: Others): PropertyDescriptorMap {
  return {
    priorityLabel: { get: () => PRIORITY_LABELS[issue.priority] ?? '' },
    labelIds: { get: () => issue.labels.map(({ id }) => id) },
    children: { get: () => others.issues.filter(({ parent }) => parent === issue) },
    relations: { get: () => others.relations.filter((relation) => relation.issue === issue) },
    inverseRelations: { get: () => others.relations.filter(({ relatedIssue }) => relatedIssue === issue) },
    comments: { get: () => others.comments.filter((comment) => comment.issue === issue) },
    attachments: { get: () => others.attachments.filter((attachment) => attachment.issue === issue) },
  }
}
