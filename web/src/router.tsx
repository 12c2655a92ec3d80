import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet } from '@tanstack/react-router'
import { EmptyState, ErrorNotice } from './components/notices'
import { Shell } from './layout/shell'
import { baseUrl, parseQuery, type QueryValue, queryString } from './lib/url'
import { Page as Jobs } from './pages/jobs/page'
import { jobsSearch } from './pages/jobs/search'
import { Page as Overview } from './pages/overview/page'
import { overviewSearch } from './pages/overview/search'
import { Page as Runs } from './pages/runs/page'
import { runsSearch } from './pages/runs/search'
import { jobEditorSearch, openSearch, signInSearch } from './searches'

/**
 * Every page of the UI. The pages that are opened first (overview, jobs, runs) are part of the first load; the others
 * are loaded when they are opened. `search` says which parameters of the address a page understands.
 */

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: NotFound,
  errorComponent: ({ error }) => <ErrorNotice error={error} className="m-6" />,
})

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: signInSearch,
  component: lazyRouteComponent(() => import('./pages/sign-in/page'), 'Page'),
})

const shell = createRoute({ getParentRoute: () => root, id: 'shell', component: Shell })
const parent = { getParentRoute: () => shell }

const overview = createRoute({ ...parent, path: '/', validateSearch: overviewSearch, component: Overview })
const jobs = createRoute({ ...parent, path: '/jobs', validateSearch: jobsSearch, component: Jobs })
const jobNew = createRoute({
  ...parent,
  path: '/jobs/new',
  validateSearch: jobEditorSearch,
  component: lazyRouteComponent(() => import('./pages/job-editor/page'), 'Page'),
})
const job = createRoute({
  ...parent,
  path: '/jobs/$jobId',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/job/page'), 'Page'),
})
const jobEdit = createRoute({
  ...parent,
  path: '/jobs/$jobId/edit',
  validateSearch: jobEditorSearch,
  component: lazyRouteComponent(() => import('./pages/job-editor/page'), 'Page'),
})
const runs = createRoute({ ...parent, path: '/runs', validateSearch: runsSearch, component: Runs })
const run = createRoute({
  ...parent,
  path: '/runs/$runId',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/run/page'), 'Page'),
})
const workflows = createRoute({
  ...parent,
  path: '/workflows',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/workflows/page'), 'Page'),
})
const workflow = createRoute({
  ...parent,
  path: '/workflows/$workflowId',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/workflow/page'), 'Page'),
})
const workflowRun = createRoute({
  ...parent,
  path: '/workflow-runs/$workflowRunId',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/workflow-run/page'), 'Page'),
})
const deadLetters = createRoute({
  ...parent,
  path: '/dead-letters',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/dead-letters/page'), 'Page'),
})
const calendars = createRoute({
  ...parent,
  path: '/calendars',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/calendars/page'), 'Page'),
})
const calendar = createRoute({
  ...parent,
  path: '/calendars/$name',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/calendar/page'), 'Page'),
})
const calendarEdit = createRoute({
  ...parent,
  path: '/calendars/$name/edit',
  component: lazyRouteComponent(() => import('./pages/calendar-editor/page'), 'Page'),
})
// The path is not below `/calendars`, because a calendar may have any name.
const calendarNew = createRoute({
  ...parent,
  path: '/new/calendar',
  component: lazyRouteComponent(() => import('./pages/calendar-editor/page'), 'Page'),
})
const backfills = createRoute({
  ...parent,
  path: '/backfills',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/backfills/page'), 'Page'),
})
const forecast = createRoute({
  ...parent,
  path: '/forecast',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/forecast/page'), 'Page'),
})
const workers = createRoute({
  ...parent,
  path: '/workers',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/workers/page'), 'Page'),
})
const tasks = createRoute({
  ...parent,
  path: '/tasks',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/tasks/page'), 'Page'),
})
const task = createRoute({
  ...parent,
  path: '/tasks/$taskId',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/task/page'), 'Page'),
})
const taskEdit = createRoute({
  ...parent,
  path: '/tasks/$taskId/edit',
  component: lazyRouteComponent(() => import('./pages/task-editor/page'), 'Page'),
})
const taskNew = createRoute({
  ...parent,
  path: '/new/task',
  component: lazyRouteComponent(() => import('./pages/task-editor/page'), 'Page'),
})
const users = createRoute({
  ...parent,
  path: '/users',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/users/page'), 'Page'),
})
const tenants = createRoute({
  ...parent,
  path: '/tenants',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/tenants/page'), 'Page'),
})
const auditLog = createRoute({
  ...parent,
  path: '/audit-log',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/audit-log/page'), 'Page'),
})
const usage = createRoute({
  ...parent,
  path: '/usage',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/usage/page'), 'Page'),
})
const keys = createRoute({
  ...parent,
  path: '/keys',
  validateSearch: openSearch,
  component: lazyRouteComponent(() => import('./pages/keys/page'), 'Page'),
})

const tree = root.addChildren([
  signIn,
  shell.addChildren([
    overview,
    jobs,
    jobNew,
    job,
    jobEdit,
    runs,
    run,
    workflows,
    workflow,
    workflowRun,
    deadLetters,
    calendars,
    calendar,
    calendarEdit,
    calendarNew,
    backfills,
    forecast,
    workers,
    tasks,
    task,
    taskEdit,
    taskNew,
    keys,
    users,
    tenants,
    auditLog,
    usage,
  ]),
])

export const router = createRouter({
  routeTree: tree,
  basepath: baseUrl().pathname,
  parseSearch: parseQuery,
  stringifySearch: search => queryString(search as Record<string, QueryValue>),
  defaultPreload: 'intent',
  scrollRestoration: false,
  defaultErrorComponent: ({ error, reset }) => <ErrorNotice error={error} onRetry={reset} className="m-6" />,
})

function NotFound() {
  return (
    <EmptyState icon="search" title="There is no such page">
      The address may be incomplete. Press <kbd>Ctrl K</kbd> to find what you look for.
    </EmptyState>
  )
}

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
