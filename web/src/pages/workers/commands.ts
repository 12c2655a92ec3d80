import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

/** Returns the commands for the actions of this page, for a terminal or a script. */

export function listCommands(): Commands {
  return {
    curl: curl('GET', apiUrl('/v1/workers?include=gone')),
    cli: cli(['workers'], { gone: true }),
    python: python('workers', [], { gone: true }),
  }
}

export function drainCommands(workerId: string): Commands {
  return {
    curl: curl('POST', apiUrl(`/v1/workers/${workerId}/drain`)),
    cli: cli(['workers', 'drain', workerId]),
    python: python('drain_worker', [workerId]),
  }
}

export function runsCommands(workerId: string): Commands {
  return {
    curl: curl('GET', apiUrl(`/v1/runs?workerId=${workerId}`)),
    cli: cli(['runs', 'list'], { worker: workerId }),
    python: python('runs', [], { worker_id: workerId }),
  }
}
