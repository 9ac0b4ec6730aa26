/**
 * GraphQL queries for issues.
 *
 * Linear charges the requested length of a list, whatever it holds, times the cost of its items; page information costs
 * too. Frequent queries are therefore short and flat.
 */
import { type IssueListSizes, issueFields } from './issue.ts'

/** Limit for tickets with blockers; only reading a ticket tells which issues block it. */
export const BLOCKED_MAX = 50
export const USUAL_SIZES: IssueListSizes = { labels: 16, relations: 10 }
export const LARGEST_SIZES: IssueListSizes = { labels: 100, relations: 100 }

export const ELIGIBLE_QUERY = `
  query Eligible($scope: IssueFilter!, $first: Int!, $after: String) {
    newest: issues(first: 1, orderBy: updatedAt, includeArchived: true) { nodes { updatedAt } }
    issues(first: $first, after: $after, filter: $scope, orderBy: updatedAt) {
      pageInfo { hasNextPage endCursor }
      nodes { ${issueFields(USUAL_SIZES)} }
    }
  }`
export const CHANGES_QUERY = `
  query Changes($entered: IssueFilter!, $touched: IssueFilter!, $blocked: IssueFilter!, $first: Int!) {
    entered: issues(first: $first, filter: $entered, orderBy: updatedAt) { nodes { id updatedAt } }
    touched: issues(first: $first, filter: $touched, orderBy: updatedAt, includeArchived: true) {
      nodes { id updatedAt }
    }
    blocked: issues(first: ${BLOCKED_MAX}, filter: $blocked, orderBy: updatedAt) { nodes { id } }
  }`
export const ISSUES_BY_ID_QUERY = `
  query Issues($filter: IssueFilter!, $first: Int!) {
    issues(first: $first, filter: $filter, includeArchived: true) { nodes { ${issueFields(USUAL_SIZES)} } }
  }`
export const LONG_ISSUE_QUERY = `query LongIssue($id: String!) { issue(id: $id) { ${issueFields(LARGEST_SIZES)} } }`
