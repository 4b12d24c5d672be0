/* A league of teams on the host (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int leaders = 0, members = 0, league = 0;
#pragma omp teams num_teams(3) thread_limit(4) reduction(+ : leaders, members) shared(league)
        {
            CHECK(omp_get_team_num() < omp_get_num_teams());
            if (omp_get_team_num() == 0)
                league = omp_get_num_teams();
            leaders++;
#pragma omp parallel reduction(+ : members)
            members++;
        }
        CHECK(leaders == league && league >= 1 && league <= 3);
        CHECK(members >= league && members <= 4 * league);
    }
    return suite_result();
}
