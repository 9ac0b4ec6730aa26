/** Root fields of the schema as functions of their arguments. */
import type { GraphQLError } from 'graphql'
import { badArgument, notFound, refused } from './refused.ts'
import type { AttachmentRow, IssueFields, IssueRow, LinearRow } from './rows.ts'
import type { Asker } from './schema.ts'
import type { LinearWorkspace } from './workspace.ts'

export interface OperationParts {
  readonly world: LinearWorkspace
  /** Tells whether the GitHub integration is on; otherwise a pull request cannot be linked as one. */
  readonly hasGitHub: () => boolean
}

type Args = Readonly<Record<string, unknown>>
type Field = (args: Args, asker: Asker) => unknown

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const PULL_REQUEST = /^https:\/\/github\.com\/[^/]+\/[^/]+\/pull\/\d+/
const PLAIN_FIELDS = ['title', 'description', 'priority', 'estimate', 'sortOrder', 'dueDate'] as const

export function queryRoot({ world }: OperationParts): Record<string, unknown> {
  return {
    viewer: (_: Args, asker: Asker) => asker.viewer,
    organization: world.organization,
    rateLimitStatus: (_: Args, { viewer, limits }: Asker) => ({
      identifier: viewer.id,
      kind: 'user',
      limits,
    }),
    issues: world.issues,
    projects: world.projects,
    teams: world.teams,
    users: world.users,
    workflowStates: () => world.workflowStates,
    issueLabels: world.issueLabels,
    issue: byId('Issue', (id) => world.issueOf(id)),
    project: byId('Project', (id) =>
      world.projects.find((candidate) => candidate.id === id || candidate.slugId === id),
    ),
    team: byId('Team', (id) => world.teams.find((candidate) => candidate.id === id || candidate.key === id)),
    user: byId('User', (id, asker) => (id === 'me' ? asker.viewer : find(world.users, id))),
    workflowState: byId('WorkflowState', (id) => find(world.workflowStates, id)),
    issueLabel: byId('IssueLabel', (id) => find(world.issueLabels, id)),
    comment: byId('Comment', (id) => find(world.comments, id)),
    attachment: byId('Attachment', (id) => find(world.attachments, id)),
    attachmentsForURL: ({ url }: Args) => world.attachments.filter((attachment) => attachment.url === url),
    issueVcsBranchSearch: ({ branchName }: Args) =>
      world.issues.find((issue) => issue.branchName === String(branchName).toLowerCase()) ?? null,
  }
}

export function mutationRoot({ world, hasGitHub }: OperationParts): Record<string, unknown> {
  const issueOf = (id: unknown): IssueRow => world.issueOf(String(id)) ?? toss(notFound('Issue'))
  const attach = (id: unknown, fields: Omit<AttachmentRow, keyof LinearRow | 'issue'>) => {
    checkUrl(fields.url)
    return payload({ attachment: world.attach(issueOf(id), fields) })
  }
  const link: Field = ({ issueId, url, title }, { viewer }) =>
    attach(issueId, {
      url: String(url),
      title: String(title ?? url),
      subtitle: null,
      metadata: {},
      creator: viewer,
    })

  return writing({
    issueCreate: ({ input }) => payload({ issue: created(world, Object(input)) }),
    issueUpdate: ({ id, input }) => payload({ issue: updated(world, issueOf(id), Object(input)) }),
    issueAddLabel: ({ id, labelId }) =>
      payload({ issue: updated(world, issueOf(id), { addedLabelIds: [labelId] }) }),
    issueRemoveLabel: ({ id, labelId }) =>
      payload({ issue: updated(world, issueOf(id), { removedLabelIds: [labelId] }) }),
    commentCreate: ({ input }, { viewer }) => {
      const { issueId, body } = Object(input)
      if (typeof body !== 'string' || body.trim() === '') throw badArgument('body should not be empty')
      return payload({ comment: world.comment(issueOf(issueId), body, viewer) })
    },
    attachmentCreate: ({ input }, { viewer }) => {
      const { issueId, url, title, subtitle, metadata } = Object(input)
      const words = {
        title: String(title),
        subtitle: typeof subtitle === 'string' ? subtitle : null,
        metadata: Object(metadata ?? {}),
      }
      return attach(issueId, { url: String(url), ...words, creator: viewer })
    },
    attachmentLinkURL: link,
    attachmentLinkGitHubPR: (args, asker) => {
      if (!hasGitHub()) throw refused('input', 'The GitHub integration is not connected')
      if (!PULL_REQUEST.test(String(args.url)))
        throw badArgument('url must be the URL of a GitHub pull request')
      return link(args, asker)
    },
  })
}

/** Lists that rows do not hold themselves. */
export function linksOf(world: LinearWorkspace): Asker['links'] {
  const issuesWith = (name: 'team' | 'project' | 'state' | 'assignee') => (row: object) =>
    world.issues.filter((issue) => issue[name] === row)
  return {
    'Team.issues': issuesWith('team'),
    'Team.projects': (team) =>
      world.projects.filter(({ teams }) => teams.some((candidate) => candidate === team)),
    'Team.labels': (team) => world.issueLabels.filter((label) => label.team === team || label.team === null),
    'Team.members': () => world.users,
    'Project.issues': issuesWith('project'),
    'Project.members': () => world.users,
    'WorkflowState.issues': issuesWith('state'),
    'User.assignedIssues': issuesWith('assignee'),
    'User.teams': () => world.teams,
    'Organization.teams': () => world.teams,
    'Organization.users': () => world.users,
  }
}

/** Writes require a scope; reading is always allowed. */
function writing(fields: Record<string, Field>): Record<string, Field> {
  const guarded =
    (field: Field): Field =>
    (args, asker) => {
      if (!asker.scopes.includes('write')) throw refused('forbidden', 'Invalid scope: `write` required')
      return field(args, asker)
    }
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, guarded(field)]))
}

function byId(type: string, rowOf: (id: string, asker: Asker) => LinearRow | undefined): Field {
  return ({ id }, asker) => rowOf(String(id), asker) ?? toss(notFound(type))
}

// ---- changes of an issue --------------------------------------------------------------------------------------------

/** Resolves all references before it creates anything. Without a state the team's first one of its backlog counts. */
function created(world: LinearWorkspace, input: Args): IssueRow {
  const team = rowOf(world.teams, 'Team', input.teamId)
  const state =
    input.stateId == null
      ? team.states.find(({ type }) => type === 'backlog')
      : rowOf(world.workflowStates, 'WorkflowState', input.stateId)
  if (state !== undefined && state.team !== team)
    throw refused('input', 'Discrepancy between issue state and team', 'The state belongs to another team.')
  const labels = labelsOf(world, { labels: [] }, input)
  if (labels.some((label) => label.team !== null && label.team !== team))
    throw refused('input', 'Discrepancy between issue labels and team', 'A label belongs to another team.')
  const relations = relationChanges(world, input)
  if (relations.project && !relations.project.teams.includes(team))
    throw refused('input', 'Discrepancy between issue project and team', 'The project is not in the team.')
  const plain = plainChanges({ title: '', ...input })
  const issue = world.issue({ title: String(input.title), team, ...(state && { state: state.name }) })
  Object.assign(issue, { ...plain, ...relations, labels })
  return issue
}

/** Resolves all references before it changes anything. */
function updated(world: LinearWorkspace, issue: IssueRow, input: Args): IssueRow {
  const state =
    input.stateId == null ? undefined : rowOf(world.workflowStates, 'WorkflowState', input.stateId)
  if (state && state.team !== issue.team)
    throw refused('input', 'Discrepancy between issue state and team', 'The state belongs to another team.')
  const changes = {
    ...plainChanges(input),
    ...relationChanges(world, input),
    labels: labelsOf(world, issue, input),
  }
  Object.assign(issue, changes)
  if (state) world.move(issue, state)
  world.touch(issue)
  return issue
}

function plainChanges(input: Args): Partial<IssueFields> {
  if (input.title !== undefined && !String(input.title ?? '').trim())
    throw badArgument('title should not be empty')
  if (Number(input.priority ?? 0) < 0 || Number(input.priority ?? 0) > 4)
    throw badArgument('priority must be between 0 and 4')
  return Object.fromEntries(PLAIN_FIELDS.filter((name) => name in input).map((name) => [name, input[name]]))
}

function relationChanges(world: LinearWorkspace, input: Args): Partial<IssueFields> {
  const changed = <T extends LinearRow>(name: string, id: unknown, rows: readonly T[], type: string) =>
    id === undefined ? {} : { [name]: id === null ? null : rowOf(rows, type, id) }
  return {
    ...changed('assignee', input.assigneeId, world.users, 'User'),
    ...changed('delegate', input.delegateId, world.users, 'User'),
    ...changed('project', input.projectId, world.projects, 'Project'),
    ...changed('parent', input.parentId, world.issues, 'Issue'),
  }
}

function labelsOf(
  world: LinearWorkspace,
  issue: Pick<IssueRow, 'labels'>,
  input: Args,
): IssueFields['labels'] {
  const named = (ids: unknown) =>
    Array.isArray(ids) ? ids.map((id) => rowOf(world.issueLabels, 'IssueLabel', id)) : undefined
  const removed = named(input.removedLabelIds) ?? []
  const kept = named(input.labelIds) ?? issue.labels
  return [...new Set([...kept, ...(named(input.addedLabelIds) ?? [])])].filter(
    (label) => !removed.includes(label),
  )
}

// ---- helpers --------------------------------------------------------------------------------------------------------

let syncId = 0

function payload(result: object): object {
  return { ...result, success: true, lastSyncId: ++syncId }
}

function rowOf<T extends LinearRow>(rows: readonly T[], type: string, id: unknown): T {
  if (!UUID.test(String(id))) throw badArgument(`the id of the ${type} must be a UUID.`)
  return find(rows, String(id)) ?? toss(notFound(type))
}

function find<T extends LinearRow>(rows: readonly T[], id: string): T | undefined {
  return rows.find((row) => row.id === id)
}

function checkUrl(url: string): void {
  if (!URL.canParse(url)) throw badArgument('url must be a URL address')
}

function toss(error: GraphQLError): never {
  throw error
}
